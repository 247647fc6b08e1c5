//! Eventfds that raise a guest's interrupts, and guest writes that signal eventfds; interrupt
//! routing and MSIs.

use std::arch::global_asm;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kvm_ioctls::{Kvm, VcpuExit, VmFd};

use crate::code;
use crate::host::{self, DEVICE, MEMORY, call, count, eventfd, machine, pass, signal};

const IRQ_LINE: u64 = 0x4008_ae61;
const IRQFD: u64 = 0x4020_ae76;
const IOEVENTFD: u64 = 0x4040_ae79;
const ROUTING: u64 = 0x4008_ae6a;
const SIGNAL_MSI: u64 = 0x4020_aea5;

/// Enough time for a guest to fall asleep.
const SHORT: Duration = Duration::from_millis(50);

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [25, 32, 36, 77, 82, 100, 122] {
        let value = kvm.check_extension_raw(capability);
        println!("extension {capability}: {value}");
    }
    let (vm, _) = machine(kvm, code!(eventfds_start, eventfds_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let (interrupt, ended) = (eventfd(), eventfd());
    println!(
        "before a controller: {}",
        irqfd(&vm, &interrupt, 8, 0, None)
    );
    println!("message before: {}", message(&vm, 0));
    let _controller = host::controller(&vm, 1);
    println!("message: {}", message(&vm, 0));
    println!("message with odd flags: {}", message(&vm, 2));
    interrupts(&vm, &interrupt, &ended);
    ended_meanwhile(&vm);
    routes(&vm);
    let writes = events(&vm);
    host::reset(&vm, &vcpu);
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => {
                let (place, value) = (address - DEVICE, host::number(data));
                println!("writes {} at {place:#x}: {value:#x}", data.len());
                match place {
                    0x100 => raise_late(&vm, &interrupt),
                    0x108 => println!("ended before: {}", count(&ended)),
                    0x110 => println!("ended behind: {}", count(&ended)),
                    _ => {}
                }
            }
            Ok(VcpuExit::MmioRead(address, data)) => {
                println!("reads {} at {:#x}", data.len(), address - DEVICE);
            }
            Ok(VcpuExit::SystemEvent(kind, _)) => break println!("event {kind}"),
            other => break println!("{other:?}"),
        }
    }
    for (what, fd) in writes {
        println!("{what}: {}", count(&fd));
    }
    beside_ends(kvm);
    many(kvm);
}

/// More ioeventfds than a bus has devices, all of one eventfd; then as many devices as the bus may
/// have.
fn many(kvm: &Kvm) {
    const MANY: u64 = 10_000;
    const REGISTER: u64 = 0x4010_ae67;
    // The guest writes to each address, and finally to one without an ioeventfd.
    let code = [
        0xd2a1_6001, // mov x1, #DEVICE
        0xd284_e202, // mov x2, #MANY
        0xb900_0022, // str w2, [x1]
        0x9100_2021, // add x1, x1, #8
        0xf100_0442, // subs x2, x2, #1
        0x54ff_ffa1, // b.ne the store
        0xb900_0022, // str w2, [x1]
        0x1400_0000, // b .
    ];
    let (vm, _) = machine(kvm, &code);
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    let fd = eventfd();
    let assign = |at: u64, flags: u64, value: u64| {
        // From both ends inwards.
        let place = if at.is_multiple_of(2) {
            at / 2
        } else {
            MANY - 1 - at / 2
        };
        let lower = 4 | (fd.as_raw_fd() as u64) << 32;
        let mut request = [value, DEVICE + 8 * place, lower, flags, 0, 0, 0, 0];
        pass(&vm, IOEVENTFD, &mut request)
    };
    let every = |what: &str, flags: u64| {
        let results: Vec<String> = (0..MANY).map(|at| assign(at, flags, 0)).collect();
        let same = results.iter().all(|result| *result == results[0]);
        println!("{MANY} {what}: {} {same}", results[0]);
    };
    every("assigned", 0);
    every("again", 0);
    let run = |vcpu: &mut kvm_ioctls::VcpuFd| match vcpu.run() {
        Ok(VcpuExit::MmioWrite(address, _)) => println!("writes at {:#x}", address - DEVICE),
        other => println!("{other:?}"),
    };
    run(&mut vcpu);
    println!("signals: {}", count(&fd));
    every("ended", 4);
    every("ended again", 4);
    // Values at one address, and assignments at adjacent addresses.
    let valued: Vec<String> = (0..200).map(|value| assign(500, 1, value)).collect();
    println!("values: {}", valued.iter().all(|result| result == "0"));
    println!("beside: {} {}", assign(498, 0, 0), assign(502, 0, 0));
    println!("a value again: {}", assign(500, 1, 100));
    println!("any value: {}", assign(500, 0, 0));
    println!("another value: {}", assign(500, 1, 1 << 20));
    let zones: Vec<String> = (0..1001u64)
        .map(|at| pass(&vm, REGISTER, &mut [DEVICE + (1 << 20) + 8 * at, 8]))
        .collect();
    println!(
        "zones: {}, then {}",
        zones.iter().filter(|one| *one == "0").count(),
        zones[1000]
    );
    println!("no place: {}", assign(600, 0, 0));
    println!("a value again: {}", assign(500, 1, 100));
    println!("end: {}", assign(500, 5, 100));
}

/// A guest writes to an eventfd that is an irqfd of other VMs, which are created and destroyed.
fn beside_ends(kvm: &Kvm) {
    const ROUNDS: usize = 20;
    const COUNT: usize = 0x8000;
    let (vm, base) = machine(kvm, code!(beside_start, beside_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    let fd = eventfd();
    let mut request = [0u64; 8];
    (request[1], request[2]) = (DEVICE + 0x200, 4 | (fd.as_raw_fd() as u64) << 32);
    assert_eq!(pass(&vm, IOEVENTFD, &mut request), "0");
    let done = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let (vm, base) = machine(kvm, &[0x1400_0000]);
                let _vcpu = vm.create_vcpu(0).expect("a vCPU");
                let _controller = host::controller(&vm, 1);
                assert_eq!(irqfd(&vm, &fd, 8, 0, None), "0");
                // SAFETY: the guest's memory; the guest does not run.
                unsafe { libc::munmap(base.cast(), host::LEN) };
            }
        });
        let runs = (0..ROUNDS).map(|_| vcpu.run().is_err());
        let refused = runs.filter(|refused| *refused).count();
        done.store(true, Relaxed);
        refused
    });
    let written = host::peek(base, COUNT);
    println!("beside machines that end: {written} writes, {refused} refused");
}

/// Raises a PPI that the guest has not enabled, and then the interrupt, both probably while it
/// sleeps.
fn raise_late(vm: &VmFd, interrupt: &OwnedFd) {
    const OWN_LINE: u32 = 2 << 24 | 20;
    let vm = vm.as_raw_fd();
    let interrupt = interrupt.try_clone().expect("a descriptor");
    thread::spawn(move || {
        thread::sleep(SHORT);
        let wanted = [OWN_LINE, 1];
        // SAFETY: the VM's descriptor is open while the guest runs, and the structure is complete.
        unsafe { libc::ioctl(vm, IRQ_LINE as _, &wanted) };
        thread::sleep(SHORT);
        signal(&interrupt);
    });
}

fn irqfd(vm: &VmFd, fd: &OwnedFd, gsi: u32, flags: u32, ended: Option<&OwnedFd>) -> String {
    let resample = ended.map_or(0, |fd| fd.as_raw_fd() as u32);
    pass(
        vm,
        IRQFD,
        &mut [fd.as_raw_fd() as u32, gsi, flags, resample, 0, 0, 0, 0],
    )
}

fn interrupts(vm: &VmFd, fd: &OwnedFd, ended: &OwnedFd) {
    println!("odd flags: {}", irqfd(vm, fd, 8, 4, None));
    println!(
        "no file: {}",
        pass(vm, IRQFD, &mut [999u32, 8, 0, 0, 0, 0, 0, 0])
    );
    println!(
        "another file: {}",
        pass(vm, IRQFD, &mut [0u32, 8, 0, 0, 0, 0, 0, 0])
    );
    println!(
        "resampled by no file: {}",
        pass(
            vm,
            IRQFD,
            &mut [fd.as_raw_fd() as u32, 8, 2, 999, 0, 0, 0, 0]
        )
    );
    println!("interrupt: {}", irqfd(vm, fd, 8, 0, None));
    println!("again: {}", irqfd(vm, fd, 9, 0, None));
    println!("end of another: {}", irqfd(vm, fd, 9, 1, None));
    println!("end: {}", irqfd(vm, fd, 8, 1, None));
    println!("end again: {}", irqfd(vm, fd, 8, 1, None));
    println!("resampled: {}", irqfd(vm, fd, 8, 2, Some(ended)));
}

/// An irqfd that is deassigned while another thread assigns it no longer listens to its eventfd.
fn ended_meanwhile(vm: &VmFd) {
    const ROUNDS: usize = 2000;
    let fd = eventfd();
    let each = |flags| (0..ROUNDS).for_each(|_| _ = irqfd(vm, &fd, 9, flags, None));
    thread::scope(|scope| {
        scope.spawn(|| each(1));
        each(0);
    });
    println!("at last ended: {}", irqfd(vm, &fd, 9, 1, None));
    signal(&fd);
    println!("nobody takes it: {}", count(&fd));
}

fn message(vm: &VmFd, flags: u32) -> String {
    pass(
        vm,
        SIGNAL_MSI,
        &mut [0x0808_0040u32, 0, 5, flags, 0, 0, 0, 0],
    )
}

/// A refused table leaves the routes as they were; the last table routes the guest's interrupt 40.
fn routes(vm: &VmFd) {
    let route = |gsi: u32, kind: u32, flags: u32, first: u32, second: u32| {
        let mut entry = [0u32; 12];
        entry[..6].copy_from_slice(&[gsi, kind, flags, 0, first, second]);
        entry
    };
    let set = |what: &str, count: u32, flags: u32, entries: &[[u32; 12]]| {
        let mut words = vec![count, flags];
        entries.iter().for_each(|entry| words.extend(entry));
        println!(
            "routes {what}: {}",
            call(vm, ROUTING, words.as_mut_ptr() as usize)
        );
    };
    set("with flags", 0, 1, &[]);
    set("too many", 4097, 0, &[]);
    set("of another kind", 1, 0, &[route(1, 9, 0, 0, 0)]);
    set("of a large number", 1, 0, &[route(4096, 1, 0, 0, 0)]);
    set("of another controller", 1, 0, &[route(1, 1, 0, 1, 0)]);
    set("to no pin", 1, 0, &[route(1, 1, 0, 0, 988)]);
    set("with odd flags", 1, 0, &[route(1, 1, 1, 0, 0)]);
    set("message with odd flags", 1, 0, &[route(1, 2, 2, 0, 0)]);
    set("twice", 2, 0, &[route(1, 1, 0, 0, 0), route(1, 1, 0, 0, 1)]);
    set("both", 2, 0, &[route(1, 1, 0, 0, 0), route(1, 2, 0, 0, 1)]);
    set("none", 0, 0, &[]);
    set(
        "good",
        2,
        0,
        &[route(9, 2, 1, 0x0808_0040, 0), route(8, 1, 0, 0, 8)],
    );
}

fn events(vm: &VmFd) -> Vec<(&'static str, OwnedFd)> {
    let assign = |fd: i32, address: u64, len: u32, flags: u32, value: u64| {
        let mut request = [0u64; 8];
        (request[0], request[1]) = (value, address);
        request[2] = u64::from(len) | (fd as u64) << 32;
        request[3] = flags.into();
        pass(vm, IOEVENTFD, &mut request)
    };
    let (any, seven, eight, sized, gone) = (eventfd(), eventfd(), eventfd(), eventfd(), eventfd());
    let fd = |file: &OwnedFd| file.as_raw_fd();
    println!("of three bytes: {}", assign(fd(&any), DEVICE, 3, 0, 0));
    println!("over the end: {}", assign(fd(&any), u64::MAX - 2, 4, 0, 0));
    println!("odd flags: {}", assign(fd(&any), DEVICE, 4, 32, 0));
    println!(
        "a value of no length: {}",
        assign(fd(&any), DEVICE, 0, 1, 0)
    );
    println!("no file: {}", assign(999, DEVICE, 4, 0, 0));
    println!("another file: {}", assign(0, DEVICE, 4, 0, 0));
    println!("any: {}", assign(fd(&any), DEVICE + 0x200, 0, 0, 0));
    println!("on top: {}", assign(fd(&seven), DEVICE + 0x200, 4, 1, 7));
    println!("seven: {}", assign(fd(&seven), DEVICE + 0x208, 4, 1, 7));
    println!(
        "seven again: {}",
        assign(fd(&eight), DEVICE + 0x208, 4, 1, 7)
    );
    println!("eight: {}", assign(fd(&eight), DEVICE + 0x208, 4, 1, 8));
    println!("sized: {}", assign(fd(&sized), DEVICE + 0x210, 2, 0, 0));
    println!("port: {}", assign(fd(&sized), 0x10, 2, 2, 0));
    println!("gone: {}", assign(fd(&gone), DEVICE + 0x218, 4, 0, 0));
    println!(
        "another's end: {}",
        assign(fd(&any), DEVICE + 0x218, 4, 4, 0)
    );
    println!(
        "end of another length: {}",
        assign(fd(&gone), DEVICE + 0x218, 8, 4, 0)
    );
    println!("end: {}", assign(fd(&gone), DEVICE + 0x218, 4, 4, 0));
    println!("end again: {}", assign(fd(&gone), DEVICE + 0x218, 4, 4, 0));
    vec![
        ("any", any),
        ("seven", seven),
        ("eight", eight),
        ("sized", sized),
        ("gone", gone),
    ]
}

const _: () = assert!(MEMORY == 0x4000_0000 && DEVICE == 0x0b00_0000);

global_asm!(
    ".pushsection .rodata.eventfds, \"a\"",
    ".balign 2048",
    ".global eventfds_start, eventfds_end",
    "eventfds_start:",
    "   ldr x20, =0x0b000000",
    "   ldr x21, =0x08000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    // Writes to addresses with an ioeventfd, and to others.
    "   mov w0, #7",
    "   str w0, [x20, #0x200]",
    "   strb w0, [x20, #0x200]",
    "   str w0, [x20, #0x208]",
    "   str w0, [x20, #0x208]",
    "   mov w0, #8",
    "   str w0, [x20, #0x208]",
    "   mov w0, #9",
    "   str w0, [x20, #0x208]",
    "   strh w0, [x20, #0x210]",
    "   str w0, [x20, #0x210]",
    "   str w0, [x20, #0x218]",
    "   ldr w0, [x20, #0x200]",
    // Interrupt 40, level-sensitive, for this CPU.
    "   mov w0, #0x12",
    "   str w0, [x21]",
    "   str wzr, [x21, #0xc08]",
    "   mov w0, #0x100",
    "   str w0, [x21, #0x104]",
    interface_on!(),
    "   isb",
    "   str xzr, [x20, #0x100]",
    "1: wfi",
    "   msr daifclr, #2",
    "   isb",
    "   msr daifset, #2",
    "   cbz x25, 1b",
    // The line is low again: the interrupt does not recur.
    "   msr daifclr, #2",
    "   isb",
    "   str xzr, [x20, #0x110]",
    "   ldr w0, =0x84000008",
    "   hvc #0",
    "   b .",
    ".ltorg",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x1, s3_0_c12_c12_0",
    "   str x1, [x20, #0x108]",
    "   msr s3_0_c12_c12_1, x1",
    "   mov x25, #1",
    "   eret",
    ".endr",
    "eventfds_end:",
    ".popsection",
);

// Writes to the eventfd and counts the writes in memory; then writes to the VMM, and repeats.
global_asm!(
    ".pushsection .rodata.beside, \"a\"",
    ".global beside_start, beside_end",
    "beside_start:",
    "   ldr x20, =0x0b000000",
    "   ldr x21, =0x40008000",
    "1: mov x1, #2000",
    "2: str wzr, [x20, #0x200]",
    "   ldr x2, [x21]",
    "   add x2, x2, #1",
    "   str x2, [x21]",
    "   subs x1, x1, #1",
    "   b.ne 2b",
    "   str xzr, [x20, #0x100]",
    "   b 1b",
    ".ltorg",
    "beside_end:",
    ".popsection",
);
