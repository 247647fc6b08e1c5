//! A guest's memory while the VMM changes its mappings, the dirty log, and read-only memory.

use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, LEN, MEMORY, PAGE, call, machine, pass, peek, poke, slot};

const GET_LOG: u64 = 0x4010_ae42;
const CLEAR_LOG: u64 = 0xc018_aec0;
const ENABLE: u64 = 0x4068_aea3;
/// The offset in memory of the data that the guest reads and writes.
const DATA: usize = 0x8000;
/// Addresses of slots other than the code's.
const LOGGED: u64 = 0x5000_0000;
const READ_ONLY: u64 = 0x6000_0000;
const HUGE: u64 = 0x7000_0000;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Guest commands, in x0: read or write the word at x1; the result or the value is in x2.
const READ: u64 = 0;
const WRITE: u64 = 1;
/// A further command: count in the word at x1, checking that it keeps the last value written, until
/// the next word is set.
const COUNT: u64 = 2;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [16, 81, 168] {
        println!(
            "extension {capability}: {}",
            kvm.check_extension_raw(capability)
        );
    }
    let (vm, base) = machine(kvm, code!(pages_start, pages_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    follows(&mut vcpu, base);
    beside_forks(&mut vcpu, base);
    log(&vm, &mut vcpu);
    huge(&vm, &mut vcpu);
    by_hand(&vm, &mut vcpu);
    read_only(&vm, &mut vcpu);
}

/// Makes the guest execute a command: it replies by a write to its device.
fn command(vcpu: &mut VcpuFd, what: u64, address: u64, value: u64) -> String {
    let pair = [(0, what), (1, address), (2, value)];
    for (register, value) in pair {
        host::set(vcpu, host::X0 | (register * 2), value).expect("a register");
    }
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(_, data)) if what == READ => {
            format!("{:#x}", host::number(data))
        }
        Ok(VcpuExit::MmioWrite(address, _)) if address == host::DEVICE => "done".into(),
        Ok(VcpuExit::MmioWrite(address, data)) => {
            let (data, address) = (host::number(data), address);
            // The data went to a device; the reply follows.
            match vcpu.run() {
                Ok(VcpuExit::MmioWrite(..)) => format!("at a device: {address:#x} {data:#x}"),
                other => format!("{other:?}"),
            }
        }
        Err(error) => format!("errno {}", error.errno()),
        other => format!("{other:?}"),
    }
}

fn follows(vcpu: &mut VcpuFd, base: *mut u8) {
    let (address, data) = (MEMORY + DATA as u64, base.wrapping_add(DATA));
    poke(base, DATA, 0x11);
    println!("first: {}", command(vcpu, READ, address, 0));
    println!(
        "writes: {} {:#x}",
        command(vcpu, WRITE, address, 0x12),
        peek(base, DATA)
    );
    let map = |rights: i32| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: a page of the guest's memory, to which no reference exists.
        unsafe { libc::mmap(data.cast(), PAGE, rights, flags, -1, 0) };
    };
    map(3);
    println!("mapped anew: {}", command(vcpu, READ, address, 0));
    poke(base, DATA, 0x13);
    println!("written: {}", command(vcpu, READ, address, 0));
    // SAFETY: as above.
    unsafe { libc::madvise(data.cast(), PAGE, libc::MADV_DONTNEED) };
    println!("let go: {}", command(vcpu, READ, address, 0));
    poke(base, DATA, 0x14);
    // SAFETY: the child only waits to be killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
    poke(base, DATA, 0x15);
    println!("copied on write: {}", command(vcpu, READ, address, 0));
    println!(
        "guest's write: {} {:#x}",
        command(vcpu, WRITE, address, 0x16),
        peek(base, DATA)
    );
    // SAFETY: the child made above.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    // SAFETY: as above.
    unsafe { libc::mprotect(data.cast(), PAGE, libc::PROT_READ) };
    println!("read-only: {}", command(vcpu, READ, address, 0));
    println!(
        "written all the same: {}",
        command(vcpu, WRITE, address, 0x17)
    );
    // SAFETY: as above.
    unsafe { libc::mprotect(data.cast(), PAGE, 3) };
    println!(
        "again: {} {:#x}",
        command(vcpu, WRITE, address, 0x18),
        peek(base, DATA)
    );
    // SAFETY: as above.
    unsafe { libc::munmap(data.cast(), PAGE) };
    println!("unmapped: {}", command(vcpu, READ, address, 0));
    map(3);
    println!("back: {}", command(vcpu, READ, address, 0));
}

/// The VMM sees what a guest writes, even if the VMM forks meanwhile and writes by another thread
/// copy the page.
fn beside_forks(vcpu: &mut VcpuFd, base: *mut u8) {
    const ROUNDS: usize = 40;
    const AREAS: usize = 1000;
    let (stop, other) = (DATA + 8, DATA + 16);
    // These areas lie below the guest's memory, and fork copies them first.
    let areas = host::memory(2 * AREAS * PAGE);
    for number in 0..AREAS {
        let page = areas.wrapping_add(2 * number * PAGE);
        // SAFETY: a page of the mapping.
        unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_READ) };
    }
    for offset in [DATA, stop, other] {
        poke(base, offset, 0);
    }
    let (done, place) = (AtomicBool::new(false), base as usize);
    let guest = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                poke(place as *mut u8, other, 1);
            }
        });
        let guest = scope.spawn(|| command(vcpu, COUNT, MEMORY + DATA as u64, 0));
        for _ in 0..ROUNDS {
            // SAFETY: the child ends at once.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        done.store(true, SeqCst);
        poke(base, stop, 1);
        guest.join().expect("a guest")
    });
    println!("beside forks: {guest}");
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(areas.cast(), 2 * AREAS * PAGE) };
}

/// The words of the dirty log.
fn get(vm: &VmFd, number: u32) -> String {
    let mut bitmap = [0u64; 2];
    let result = pass(
        vm,
        GET_LOG,
        &mut [u64::from(number), bitmap.as_mut_ptr() as u64],
    );
    format!("{result} {bitmap:x?}")
}

fn log(vm: &VmFd, vcpu: &mut VcpuFd) {
    let (base, len) = (host::memory(LEN), 100 * PAGE);
    let page = |number: usize| LOGGED + (number * PAGE) as u64;
    println!("slot: {}", slot(vm, 1, 0, LOGGED, base, len));
    println!("without a log: {}", get(vm, 1));
    println!("of no slot: {}", get(vm, 9));
    println!("of too large a number: {}", get(vm, 40_000));
    println!("before: {}", command(vcpu, WRITE, page(1), 1));
    println!("with a log: {}", slot(vm, 1, 1, LOGGED, base, len));
    println!("nothing: {}", get(vm, 1));
    for number in [1, 3, 65, 99] {
        command(vcpu, WRITE, page(number), 2);
    }
    command(vcpu, READ, page(4), 0);
    println!("four: {}", get(vm, 1));
    println!("none: {}", get(vm, 1));
    println!("again: {}", command(vcpu, WRITE, page(3), 3));
    println!("one: {}", get(vm, 1));
    let mut wrong = [1u64, 8];
    println!("to nowhere: {}", pass(vm, GET_LOG, &mut wrong));
    println!("without: {}", slot(vm, 1, 0, LOGGED, base, len));
    println!("gone: {}", get(vm, 1));
    println!(
        "written: {} {}",
        peek(base, 3 * PAGE),
        peek(base, 65 * PAGE)
    );
    println!("removed: {}", slot(vm, 1, 0, LOGGED, base, 0));
}

/// A slot of two pages that kernels may make huge, and changes of parts of it.
fn huge(vm: &VmFd, vcpu: &mut VcpuFd) {
    let memory = host::memory(3 * HUGE_PAGE);
    let base = memory.wrapping_add(memory.align_offset(HUGE_PAGE));
    let (len, pages) = (2 * HUGE_PAGE, 2 * HUGE_PAGE / PAGE);
    let at = |number: usize| HUGE + (number * PAGE) as u64;
    let here = |number: usize| base.wrapping_add(number * PAGE);
    println!("slot: {}", slot(vm, 2, 0, HUGE, base, len));
    let tell = |vcpu: &mut VcpuFd, what: &str| {
        let mut values = Vec::new();
        for number in [0, 5, 6, 7, 300, 511, 512, pages - 1] {
            values.push(command(vcpu, READ, at(number), 0));
        }
        println!("{what}: {}", values.join(" "));
    };
    for number in [0, 5, 6, 7, 300, 511, 512, pages - 1] {
        command(vcpu, WRITE, at(number), number as u64 + 1);
    }
    tell(vcpu, "written");
    poke(base, 300 * PAGE, 0x99);
    // SAFETY: pages of the mapping, to which no reference exists.
    unsafe { libc::madvise(here(5).cast(), PAGE, libc::MADV_DONTNEED) };
    tell(vcpu, "a page let go");
    // SAFETY: as above.
    unsafe { libc::mprotect(here(6).cast(), PAGE, libc::PROT_READ) };
    println!("read-only: {}", command(vcpu, WRITE, at(6), 1));
    println!("beside: {}", command(vcpu, WRITE, at(7), 0x77));
    // SAFETY: as above.
    unsafe { libc::mprotect(here(6).cast(), PAGE, 3) };
    println!("again: {}", command(vcpu, WRITE, at(6), 0x66));
    println!("with a log: {}", slot(vm, 2, 1, HUGE, base, len));
    for number in [1, 300, 511, 700] {
        command(vcpu, WRITE, at(number), 0xaa);
    }
    let mut bitmap = [0u64; 2 * HUGE_PAGE / PAGE / 64];
    let mut request = [2, bitmap.as_mut_ptr() as u64];
    println!("log: {}", pass(vm, GET_LOG, &mut request));
    let set = (0..pages).filter(|page| bitmap[page / 64] >> (page % 64) & 1 != 0);
    println!("pages: {:?}", set.collect::<Vec<_>>());
    println!("without: {}", slot(vm, 2, 0, HUGE, base, len));
    tell(vcpu, "after the log");
    // Maps new memory: small pages become huge ones, or a huge page becomes small ones.
    let anew = |len: usize| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: as above.
        unsafe { libc::mmap(base.cast(), len, 3, flags, -1, 0) };
    };
    anew(len);
    tell(vcpu, "mapped anew");
    poke(base, 6 * PAGE, 0x1234);
    command(vcpu, WRITE, at(511), 0x5678);
    tell(vcpu, "written");
    println!("the monitor's: {:#x}", peek(base, 511 * PAGE));
    anew(10 * PAGE);
    tell(vcpu, "ten pages anew");
    println!("removed: {}", slot(vm, 2, 0, HUGE, base, 0));
    println!("nothing: {}", command(vcpu, WRITE, at(0), 1));
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(memory.cast(), 3 * HUGE_PAGE) };
}

fn by_hand(vm: &VmFd, vcpu: &mut VcpuFd) {
    let enable = |capability: u64, flags: u64, argument: u64| {
        let mut request = [0u64; 13];
        (request[0], request[1]) = (capability | flags << 32, argument);
        pass(vm, ENABLE, &mut request)
    };
    println!("nothing like it: {}", enable(9999, 0, 0));
    println!("with flags: {}", enable(168, 1, 1));
    println!("odd argument: {}", enable(168, 0, 4));
    println!("all written alone: {}", enable(168, 0, 2));
    println!("by hand: {}", enable(168, 0, 1));
    let (base, len) = (host::memory(LEN), 100 * PAGE);
    let page = |number: usize| LOGGED + (number * PAGE) as u64;
    println!("slot: {}", slot(vm, 1, 1, LOGGED, base, len));
    for number in [0, 2, 70] {
        command(vcpu, WRITE, page(number), 2);
    }
    println!("three: {}", get(vm, 1));
    println!("still: {}", get(vm, 1));
    let clear = |what: &str, number: u32, first: u64, count: u32, words: [u64; 2]| {
        let head = u64::from(number) | u64::from(count) << 32;
        let mut request = [head, first, words.as_ptr() as u64];
        println!("clear {what}: {}", pass(vm, CLEAR_LOG, &mut request));
    };
    clear("of no slot", 9, 0, 64, [1, 0]);
    clear("of no slot, at an odd place", 9, 1, 64, [1, 0]);
    clear("at an odd place", 1, 1, 64, [1, 0]);
    clear("of an odd count", 1, 0, 63, [1, 0]);
    clear("too far", 1, 64, 64, [1, 0]);
    clear("behind", 1, 128, 0, [1, 0]);
    clear("one", 1, 0, 64, [0b101 & !1, 0]);
    println!("two: {}", get(vm, 1));
    clear("the end", 1, 64, 36, [u64::MAX, 0]);
    println!("one: {}", get(vm, 1));
    println!("again: {}", command(vcpu, WRITE, page(70), 3));
    println!("two: {}", get(vm, 1));
    println!("removed: {}", slot(vm, 1, 0, LOGGED, base, 0));
    println!("all written: {}", enable(168, 0, 3));
    println!("slot: {}", slot(vm, 1, 1, LOGGED, base, len));
    println!("all: {}", get(vm, 1));
    clear("all", 1, 0, 100, [u64::MAX, u64::MAX]);
    println!("none: {}", get(vm, 1));
    println!("again: {}", command(vcpu, WRITE, page(5), 3));
    println!("one: {}", get(vm, 1));
    println!("removed: {}", slot(vm, 1, 0, LOGGED, base, 0));
    println!("off: {}", enable(168, 0, 0));
    println!("undescribed: {}", enable(177, 0, 0));
    println!(
        "of a vCPU: {}",
        call(vcpu, ENABLE, [0u64; 13].as_ptr() as usize)
    );
}

fn read_only(vm: &VmFd, vcpu: &mut VcpuFd) {
    let base = host::memory(LEN);
    poke(base, 8, 0x77);
    println!("read-only slot: {}", slot(vm, 2, 2, READ_ONLY, base, LEN));
    println!("read: {}", command(vcpu, READ, READ_ONLY + 8, 0));
    println!("write: {}", command(vcpu, WRITE, READ_ONLY + 8, 0x78));
    println!("still: {:#x}", peek(base, 8));
    println!("no longer so: {}", slot(vm, 2, 0, READ_ONLY, base, LEN));
    println!("removed: {}", slot(vm, 2, 2, READ_ONLY, base, 0));
}

global_asm!(
    ".pushsection .rodata.pages, \"a\"",
    ".balign 2048",
    ".global pages_start, pages_end",
    "pages_start:",
    "   ldr x20, =0x0b000000",
    "1: cbnz x0, 2f",
    "   ldr x2, [x1]",
    "   str x2, [x20]",
    "   b 1b",
    "2: tbnz x0, #1, 3f",
    "   str x2, [x1]",
    "   str x2, [x20]",
    "   b 1b",
    "3: str x2, [x1]",
    "4: ldr x3, [x1]",
    "   cmp x3, x2",
    "   b.ne 5f",
    "   add x2, x2, #1",
    "   str x2, [x1]",
    "   ldr x3, [x1, #8]",
    "   cbz x3, 4b",
    "   str x2, [x20]",
    "   b 1b",
    // A write was lost: this is reported as a write to a device.
    "5: str xzr, [x20, #8]",
    "   str x2, [x20]",
    "   b 1b",
    ".ltorg",
    "pages_end:",
    ".popsection",
);
