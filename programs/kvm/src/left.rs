//! VMs and their parts that are created and destroyed many times leave nothing behind, even if
//! their VMM is killed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, thread};

use kvm_ioctls::{Kvm, VmFd};

use crate::host::{self, DEVICE, LEN, MEMORY, PAGE, eventfd, pass};

const IRQFD: u64 = 0x4020_ae76;
const IOEVENTFD: u64 = 0x4040_ae79;
/// The flags that deassign.
const IRQFD_END: u32 = 1;
const IOEVENTFD_END: u32 = 4;

/// The tolerated loss in KiB: less than a page for each of the least frequent objects.
const MARGIN: i64 = 6 << 10;
/// How long to wait for memory that is freed later, in tenths of a second.
const PATIENCE: u32 = 100;

/// Runs each test `count` times, those with a process or a held page less often.
pub fn tell(kvm: &Kvm, count: u64) {
    told("machines", count, |_| machine(kvm));
    beside_forks(|| told("machines held by a page", count / 10, |_| held_by_page(kvm)));
    told("monitors with a page", count / 20, |_| ends_with_page(kvm));
    let (vm, base) = host::machine(kvm, &[0x1400_0000]);
    let _vcpu = vm.create_vcpu(0).expect("a vCPU");
    let _controller = host::controller(&vm, 1);
    told("slots", count, |at| slot(&vm, base, at));
    told("interrupts", count, |at| interrupt(&vm, at));
    told("writes", count, |at| write(&vm, at));
    told("killed monitors", count / 20, |_| killed(kvm));
}

/// Free memory, in KiB.
fn free() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("MemFree")
}

fn told(what: &str, count: u64, mut make: impl FnMut(u64)) {
    // A first run creates the objects that are kept for reuse.
    (0..count / 10).for_each(&mut make);
    let before = free();
    (0..count).for_each(&mut make);
    let mut lost = before - free();
    for _ in 0..PATIENCE {
        if lost < MARGIN {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        lost = before - free();
    }
    match lost {
        ..MARGIN => println!("{what}: nothing is lost"),
        _ => println!("{what}: {lost} KiB of {count} are lost"),
    }
}

/// A VM with a vCPU, memory and a controller.
fn machine(kvm: &Kvm) {
    let (vm, base) = host::machine(kvm, &[0x1400_0000]);
    let _vcpu = vm.create_vcpu(0).expect("a vCPU");
    let _controller = host::controller(&vm, 1);
    assert_eq!(irqfd(&vm, &eventfd(), 8, 0), "0");
    // SAFETY: the guest's memory; the guest does not run.
    unsafe { libc::munmap(base.cast(), LEN) };
}

/// Runs `work` while another thread forks; the children share its descriptors and mappings.
fn beside_forks(work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    // fork(3) blocks all signals in its caller for a moment, so the end of a child could interrupt
    // the other thread's vCPU.
    // SAFETY: the set is valid.
    unsafe {
        let mut ended: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut ended, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &ended, std::ptr::null_mut());
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                in_child(|| ());
                thread::sleep(Duration::from_millis(5));
            }
        });
        work();
        done.store(true, Relaxed);
    });
}

/// Runs `work` in a child process. It must not use anything that another thread may hold.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the caller guarantees that.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        work();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 1;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// The memory of a closed VM that is still held by the page that its vCPU shares with the VMM, and
/// that page.
fn page_of_machine(kvm: &Kvm) -> (*mut u8, *mut libc::c_void) {
    // Writes to the device.
    let (vm, base) = host::machine(kvm, &[0xd2a1_6014, 0xb900_0280]);
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let _controller = host::controller(&vm, 1);
    let fd = eventfd();
    assert_eq!(irqfd(&vm, &fd, 8, 0), "0");
    assert_eq!(ioeventfd(&vm, &fd, DEVICE + 8, 0), "0");
    host::reset(&vm, &vcpu);
    assert!(vcpu.run().is_ok());
    let fd = vcpu.as_raw_fd();
    // SAFETY: a new mapping.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, 3, libc::MAP_SHARED, fd, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    (base, page)
}

/// A VMM that unmaps the page last.
fn held_by_page(kvm: &Kvm) {
    let (base, page) = page_of_machine(kvm);
    // SAFETY: the mappings made above, and nothing points into them.
    unsafe {
        libc::munmap(base.cast(), LEN);
        libc::munmap(page, PAGE);
    }
}

/// A VMM that exits with the page mapped.
fn ends_with_page(kvm: &Kvm) {
    in_child(|| _ = page_of_machine(kvm));
}

fn slot(vm: &VmFd, base: *mut u8, at: u64) {
    let place = MEMORY + (2 + at % 64) * LEN as u64;
    assert_eq!(host::slot(vm, 1, (at % 2) as u32, place, base, LEN), "0");
    assert_eq!(host::slot(vm, 1, 0, place, base, 0), "0");
}

fn irqfd(vm: &VmFd, fd: &OwnedFd, gsi: u32, flags: u32) -> String {
    let words = &mut [fd.as_raw_fd() as u32, gsi, flags, 0, 0, 0, 0, 0];
    pass(vm, IRQFD, words)
}

/// An irqfd that ends by request, or when its eventfd is closed.
fn interrupt(vm: &VmFd, at: u64) {
    let (fd, gsi) = (eventfd(), (at % 64) as u32);
    assert_eq!(irqfd(vm, &fd, gsi, 0), "0");
    host::signal(&fd);
    if at.is_multiple_of(2) {
        assert_eq!(irqfd(vm, &fd, gsi, IRQFD_END), "0");
    }
}

fn ioeventfd(vm: &VmFd, fd: &OwnedFd, address: u64, flags: u32) -> String {
    let lower = 4 | (fd.as_raw_fd() as u64) << 32;
    let words = &mut [0, address, lower, flags.into(), 0, 0, 0, 0];
    pass(vm, IOEVENTFD, words)
}

fn write(vm: &VmFd, at: u64) {
    let fd = eventfd();
    for flags in [0, IOEVENTFD_END] {
        let address = DEVICE + 8 * (at % 512);
        assert_eq!(ioeventfd(vm, &fd, address, flags), "0");
    }
}

/// A VMM that is killed while its guest runs.
fn killed(kvm: &Kvm) {
    let ready = eventfd();
    // SAFETY: the child has one thread, and uses nothing that another thread holds.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let (vm, _) = host::machine(kvm, &[0x1400_0000]);
        let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
        let _controller = host::controller(&vm, 1);
        assert_eq!(irqfd(&vm, &eventfd(), 8, 0), "0");
        host::reset(&vm, &vcpu);
        host::signal(&ready);
        let end = vcpu.run().is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(end.into()) };
    }
    while host::count(&ready) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the child exists until it is waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}
