//! Random guests: two vCPUs that execute random code until they have exited often enough.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::code;
use crate::machine::{self, MEMORY, Memory, RUN, call, make};
use random::Random;

/// Guests in each round.
const GUESTS: usize = 6;
/// vCPUs of each guest.
const VCPUS: u64 = 2;
/// The number of exits of each vCPU, caused by its code or by a signal.
const RUNS: usize = 60;
/// Requests (`include/uapi/linux/kvm.h`).
const GET_LOG: u64 = 0x4010_ae42;
const SET_DEBUG: u64 = 0x4208_ae9b;
const SET_EVENTS: u64 = 0x4040_aea0;
/// The interval of the signals.
const PERIOD: Duration = Duration::from_millis(5);

/// Runs the guests of a round.
pub fn run(random: &mut Random) {
    let memory = Memory::new(machine::LEN);
    for _ in 0..GUESTS {
        let vm = make(machine::system().as_raw_fd(), machine::CREATE_VM, 0).expect("a VM");
        machine::give(vm.as_raw_fd(), &memory);
        let vcpus: Vec<OwnedFd> = (0..VCPUS)
            .map(|id| make(vm.as_raw_fd(), machine::CREATE_VCPU, id).expect("a vCPU"))
            .collect();
        let _controller = machine::give_controller(vm.as_raw_fd());
        code::write(&memory, random);
        for vcpu in &vcpus {
            machine::reset(vm.as_raw_fd(), vcpu.as_raw_fd(), MEMORY, false);
        }
        let running = &AtomicUsize::new(vcpus.len());
        let threads: Vec<_> = vcpus
            .into_iter()
            .map(|vcpu| {
                let (running, seed) = (running as *const AtomicUsize as usize, random.any());
                thread::spawn(move || {
                    leave_often(&vcpu, &mut Random::new(seed));
                    // SAFETY: it lives until the threads are joined.
                    unsafe { &*(running as *const AtomicUsize) }.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        while running.load(SeqCst) != 0 {
            thread::sleep(PERIOD);
            for thread in &threads {
                // SAFETY: the thread is not joined yet.
                unsafe { libc::pthread_kill(thread.as_pthread_t() as _, libc::SIGUSR1) };
            }
            disturb(&vm, &memory, random);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a vCPU's thread"));
    }
}

/// Changes something behind the guest's back: an interrupt line, a page of its memory, or the
/// logging of its writes.
fn disturb(vm: &OwnedFd, memory: &Memory, random: &mut Random) {
    let logs = |on: u64| {
        let region = [on << 32, MEMORY, memory.len as u64, memory.base as u64];
        call(vm.as_raw_fd(), machine::SET_REGION, region.as_ptr() as u64);
    };
    match random.below(6) {
        0 => logs(1),
        1 => logs(0),
        2 => {
            let mut bitmap = [0u64; 8];
            let request = [0, bitmap.as_mut_ptr() as u64];
            call(vm.as_raw_fd(), GET_LOG, request.as_ptr() as u64);
        }
        3 => memory.let_go(0x1_0000 + random.below(64) as usize * 0x1000),
        _ => line(vm, random),
    }
}

/// Sets an interrupt line.
fn line(vm: &OwnedFd, random: &mut Random) {
    let number = match random.below(4) {
        0 => random.edge() as u32,
        1 => 2 << 24 | (random.below(2) as u32) << 16 | (16 + random.below(16) as u32),
        _ => (1 << 24) | (32 + random.below(224) as u32),
    };
    let request = [number, random.below(2) as u32];
    call(vm.as_raw_fd(), 0x4008_ae61, request.as_ptr() as u64);
}

/// Runs a vCPU many times, with random answers to its reads of devices.
fn leave_often(vcpu: &OwnedFd, random: &mut Random) {
    let page = Memory::of_vcpu(vcpu.as_raw_fd()).expect("its page");
    for _ in 0..RUNS {
        // The answer to a read of a device is at offset 40; the VMM may write the whole page.
        page.write(40, random.edge() as u32);
        page.write(44, random.edge() as u32);
        if random.once_in(8) {
            let mut debug = [random.edge(); 65];
            debug[0] = random.one_of(&[0, 1, 3, 1 << 16 | 1, 1 << 17 | 1]);
            call(vcpu.as_raw_fd(), SET_DEBUG, debug.as_ptr() as u64);
        }
        if random.once_in(8) {
            let kind = random.one_of(&[0, 1, 1 | 1 << 8, 1 << 16]);
            let events = [kind, random.edge(), 0, 0, 0, 0, 0, 0];
            call(vcpu.as_raw_fd(), SET_EVENTS, events.as_ptr() as u64);
        }
        call(vcpu.as_raw_fd(), RUN, 0);
    }
}
