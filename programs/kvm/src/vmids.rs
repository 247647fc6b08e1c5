//! More VMs than a CPU has VMIDs: no guest sees another's memory.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::host::{self, MEMORY, PAGE, number, poke};

/// More than 8-bit VMIDs can identify.
const MACHINES: usize = 300;
/// The number of runs of each VM.
const ROUNDS: u64 = 6;
const CPUS: usize = 2;

struct Machine {
    vcpu: VcpuFd,
    _vm: VmFd,
    /// The page of its code, and the page of the word that the guest reports.
    base: *mut u8,
    own: u64,
}

// SAFETY: one thread at a time uses it, and its memory stays mapped.
unsafe impl Send for Machine {}

/// Prints how often a guest reported another's word. The two lists of VMs swap CPUs each round, so
/// that both CPUs run all VMs.
pub fn tell(kvm: &Kvm) {
    let made = || (0..MACHINES / CPUS).map(|at| Machine::new(kvm, at as u64));
    let mut lists: [Vec<Machine>; CPUS] = [made().collect(), made().collect()];
    let wrong = AtomicU64::new(0);
    for round in 0..ROUNDS {
        let barrier = Barrier::new(CPUS);
        thread::scope(|scope| {
            for (cpu, list) in lists.iter_mut().enumerate() {
                let (barrier, wrong) = (&barrier, &wrong);
                scope.spawn(move || {
                    host::stay_on((cpu + round as usize) % CPUS);
                    barrier.wait();
                    for machine in list {
                        let own = machine.own << 32 | round << 16 | cpu as u64;
                        if !machine.tells(own, round % 2 == 0) {
                            wrong.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
    }
    println!(
        "{MACHINES} machines, {ROUNDS} times each: {} wrong",
        wrong.load(Relaxed)
    );
}

impl Machine {
    fn new(kvm: &Kvm, own: u64) -> Self {
        let (vm, base) = (kvm.create_vm().expect("a VM"), host::memory(2 * PAGE));
        // x1 is its memory and x2 the device; it reports the first word of its second page.
        let code = [
            0xd2a8_0001, // mov x1, #MEMORY
            0xd2a1_6002, // mov x2, #DEVICE
            0xf948_0020, // ldr x0, [x1, #PAGE]
            0xf900_0040, // str x0, [x2]
            0x17ff_fffe, // b the load
        ];
        host::write(base, &code);
        assert_eq!(host::slot(&vm, 0, 0, MEMORY, base, 2 * PAGE), "0");
        let vcpu = vm.create_vcpu(0).expect("a vCPU");
        host::reset(&vm, &vcpu);
        let _vm = vm;
        Machine {
            vcpu,
            _vm,
            base,
            own,
        }
    }

    /// Puts `own` into the guest's memory, in its present page or in a new one in its place, and
    /// returns whether the guest reports it.
    fn tells(&mut self, own: u64, other_page: bool) -> bool {
        if other_page {
            // SAFETY: its own memory, to which no reference exists.
            let done =
                unsafe { libc::madvise(self.base.add(PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
            assert_eq!(done, 0);
        }
        poke(self.base, PAGE, own);
        match self.vcpu.run() {
            Ok(VcpuExit::MmioWrite(_, data)) => number(data) == own,
            other => panic!("{other:?}"),
        }
    }
}
