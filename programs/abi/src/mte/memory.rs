//! Tags of memory that is copied, reused or of a file.

use std::ptr;

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE, c_void};

use super::*;

/// Runs these tests.
pub unsafe fn run() {
    unsafe {
        copied();
        reused();
        files();
    }
}

unsafe fn copied() {
    unsafe {
        begin("copied");
        let page = private(TAGGED, 2);
        set_tag(page, 4);
        set_tag(page + PAGE, 8);
        store(page + PAGE, 1);
        libc::mprotect((page + PAGE) as *mut c_void, PAGE, PROT_READ | PROT_WRITE);
        tell_end(
            "child",
            in_child(|| {
                println!("{:x} {:x}", tag(page), tag(page + PAGE));
                set_tag(page, 6);
                store(page + PAGE, 2);
                println!(
                    "{:x} {:x} {:x}",
                    tag(page),
                    tag(page + GRANULE),
                    tag(page + PAGE)
                );
                set_tag(page + PAGE + GRANULE, 1);
                println!("{:x} {:x}", tag(page + PAGE), tag(page + PAGE + GRANULE));
            }),
        );
        println!(
            "{:x} {:x} {:x}",
            tag(page),
            tag(page + PAGE),
            tag(page + PAGE + GRANULE)
        );
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            println!("{:x} {:x}", tag(page), tag(page + PAGE));
            libc::_exit(0);
        }
        set_tag(page, 7);
        store(page + PAGE, 3);
        println!("{:x} {:x}", tag(page), tag(page + PAGE));
        libc::write(ends[1], c"x".as_ptr().cast(), 1);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        // A huge page.
        let large = private(TAGGED, 1024).next_multiple_of(2 << 20);
        set_tag(large + 9 * PAGE, 9);
        tell_end(
            "child",
            in_child(|| {
                store(large + 9 * PAGE + 64, 1);
                println!("{:x} {:x}", tag(large + 9 * PAGE), tag(large + 10 * PAGE));
            }),
        );
    }
}

/// Reused pages have no tags of their former user.
unsafe fn reused() {
    unsafe {
        begin("reused");
        for _ in 0..3 {
            tell_end(
                "fills",
                in_child(|| {
                    let pages = private(TAGGED, 512);
                    for at in (0..512 * PAGE).step_by(GRANULE) {
                        set_tag(pages + at, 1 + at / GRANULE % 15);
                    }
                }),
            );
            let pages = private(TAGGED, 512);
            let mut others = 0;
            for page in (pages..pages + 512 * PAGE).step_by(PAGE) {
                store(page, 1);
            }
            for at in (pages..pages + 512 * PAGE).step_by(GRANULE) {
                others += usize::from(tag(at) != 0);
            }
            println!("{others}");
            let plain = private(PROT_READ | PROT_WRITE, 256);
            (0..256).for_each(|page| store(plain + page * PAGE, 1));
            libc::mprotect(plain as *mut c_void, 256 * PAGE, TAGGED);
            let others = (0..256 * PAGE)
                .step_by(GRANULE)
                .filter(|at| tag(plain + at) != 0);
            println!("{}", others.count());
            libc::munmap(pages as *mut c_void, 512 * PAGE);
            libc::munmap(plain as *mut c_void, 256 * PAGE);
        }
    }
}

unsafe fn files() {
    unsafe {
        begin("files");
        let file = libc::memfd_create(c"tags".as_ptr(), 0);
        libc::ftruncate(file, 4 * PAGE as i64);
        let map =
            |rights, flags| libc::mmap(ptr::null_mut(), 4 * PAGE, rights, flags, file, 0) as usize;
        let one = map(TAGGED, MAP_SHARED);
        let two = map(TAGGED, MAP_SHARED);
        let plain = map(PROT_READ | PROT_WRITE, MAP_SHARED);
        store(plain + PAGE, 9);
        set_tag(one, 3);
        println!(
            "{:x} {:x} {:x} {}",
            tag(two),
            tag(plain),
            tag(one + PAGE),
            load(one + PAGE)
        );
        libc::munmap(one as *mut c_void, 4 * PAGE);
        libc::munmap(two as *mut c_void, 4 * PAGE);
        let again = map(PROT_READ | PROT_MTE, MAP_SHARED);
        println!("{:x}", tag(again));
        let own = map(TAGGED, MAP_PRIVATE);
        println!("{:x}", tag(own));
        set_tag(own, 5);
        store(own + PAGE, 1);
        println!("{:x} {:x}", tag(own), tag(again));
        tell_end(
            "child",
            in_child(|| {
                println!("{:x} {:x}", tag(again), tag(own));
                let writer = map(TAGGED, MAP_SHARED);
                set_tag(writer + 64, 2);
            }),
        );
        println!("{:x}", tag(again + 64));
        libc::pwrite(file, c"abc".as_ptr().cast(), 3, 0);
        println!("{:x}", tag(again));
        libc::fallocate(file, 3, 0, PAGE as i64);
        println!("{:x}", tag(again));
        libc::close(file);
        let shared = libc::mmap(
            ptr::null_mut(),
            PAGE,
            TAGGED,
            MAP_SHARED | MAP_ANONYMOUS,
            -1,
            0,
        ) as usize;
        tell_end("child", in_child(|| set_tag(shared, 11)));
        println!("{:x}", tag(shared));
        let id = libc::shmget(libc::IPC_PRIVATE, PAGE, 0o600);
        let at = libc::shmat(id, ptr::null(), 0);
        libc::shmctl(id, libc::IPC_RMID, ptr::null_mut());
        tell("segment", libc::mprotect(at, PAGE, TAGGED));
        set_tag(at as usize, 12);
        println!("{:x}", tag(at as usize));
        tell("removed", libc::madvise(at, PAGE, libc::MADV_REMOVE));
        println!("{:x}", tag(at as usize));
    }
}
