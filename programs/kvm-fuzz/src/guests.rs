//! Random guests: two virtual CPUs that do what they like, until they have left often enough.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::code;
use crate::machine::{self, MEMORY, Memory, RUN, call, make};
use crate::random::Random;

/// Guests in a round.
const GUESTS: usize = 6;
/// Virtual CPUs of each.
const VCPUS: u64 = 2;
/// Times that each leaves its guest, or is made to.
const RUNS: usize = 60;
/// How often they are made to.
const PERIOD: Duration = Duration::from_millis(5);

/// Runs them.
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
                    // SAFETY: it lives until the threads were joined.
                    unsafe { &*(running as *const AtomicUsize) }.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        while running.load(SeqCst) != 0 {
            thread::sleep(PERIOD);
            for thread in &threads {
                // SAFETY: a thread that was not joined yet.
                unsafe { libc::pthread_kill(thread.as_pthread_t() as _, libc::SIGUSR1) };
            }
            line(&vm, random);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a vCPU's thread"));
    }
}

/// Moves an interrupt line.
fn line(vm: &OwnedFd, random: &mut Random) {
    let number = match random.below(4) {
        0 => random.edge() as u32,
        1 => 2 << 24 | (random.below(2) as u32) << 16 | 16 + random.below(16) as u32,
        _ => 1 << 24 | 32 + random.below(224) as u32,
    };
    let request = [number, random.below(2) as u32];
    call(vm.as_raw_fd(), 0x4008_ae61, request.as_ptr() as u64);
}

/// Runs a virtual CPU many times, and answers at random.
fn leave_often(vcpu: &OwnedFd, random: &mut Random) {
    let page = Memory::of_vcpu(vcpu.as_raw_fd()).expect("its page");
    for _ in 0..RUNS {
        // The answer to a device's read stands 40 bytes in; all of the page is the monitor's to write.
        page.write(40, random.edge() as u32);
        page.write(44, random.edge() as u32);
        call(vcpu.as_raw_fd(), RUN, 0);
    }
}
