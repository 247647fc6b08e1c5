//! vCPUs whose MPIDR_EL1 the VMM sets, and the SGIs that each of them receives.

use kvm_ioctls::{DeviceFd, Kvm, VcpuExit, VcpuFd};

use crate::MPIDR;
use crate::host::{self, get, set};
use crate::sgis::{GROUP, GUEST, PENDING, X0, set_word, word};

/// ICC_SGI1R_EL1 for SGI 5 to the CPUs of `list` in the group of `packed` (Aff3 to Aff0).
fn sgi(packed: u64, list: u64) -> u64 {
    let [aff3, aff2, aff1] = [24, 16, 8].map(|shift| packed >> shift & 0xff);
    aff3 << 48 | aff2 << 32 | 5 << 24 | aff1 << 16 | list
}

/// MPIDR_EL1 of this affinity.
fn mpidr(packed: u64) -> u64 {
    packed >> 24 << 32 | packed & 0xff_ffff | 1 << 31
}

/// Pseudo-random affinities of all four levels; Aff0 is within reach of a target list.
fn anywhere(count: u64) -> Vec<u64> {
    let scatter = |id: u64| (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff_ff0f;
    (0..count).map(scatter).collect()
}

/// Sets the affinities of a VM, and sends SGIs to each, to its neighbours, and to its whole group.
fn shape(kvm: &Kvm, what: &str, affinities: &[u64]) {
    let (vm, _memory) = host::machine(kvm, &GUEST);
    let mut vcpus: Vec<_> = (0..affinities.len() as u64)
        .map(|id| vm.create_vcpu(id).expect("a vCPU"))
        .collect();
    let controller = host::controller(&vm, vcpus.len() as u64);
    for (vcpu, &affinity) in vcpus.iter().zip(affinities) {
        host::reset(&vm, vcpu);
        set(vcpu, MPIDR, mpidr(affinity)).expect("MPIDR_EL1");
        assert_eq!(get(vcpu, MPIDR), Ok(mpidr(affinity)));
    }
    for &affinity in affinities {
        set_word(&controller, affinity, GROUP, u32::MAX);
    }
    let mut send = |name: &str, value: u64| {
        let had = receivers(&mut vcpus[0], &controller, affinities, value);
        println!("{what}, {name}: {had}");
    };
    for &affinity in affinities {
        let name = |change: u64| format!("{:x}", affinity ^ change);
        send(&name(0), sgi(affinity, 1 << (affinity & 15)));
        for change in [1, 1 << 8, 1 << 16, 1 << 24] {
            let neighbour = affinity ^ change;
            send(&name(change), sgi(neighbour, 1 << (neighbour & 15)));
        }
        send(&format!("{:x} to f", affinity & !15), sgi(affinity, 0xffff));
    }
    send("nobody", sgi(affinities[0], 0));

    // The first changes its affinity after the VM has run.
    let (old, new) = (affinities[0], affinities[0] ^ 0x2000_0000);
    let moved = set(&vcpus[0], MPIDR, mpidr(new));
    println!("{what}, set anew: {moved:?}, {:x?}", get(&vcpus[0], MPIDR));
    let others: Vec<u64> = affinities
        .iter()
        .copied()
        .filter(|&cpu| cpu != old)
        .collect();
    let all: Vec<u64> = others.iter().copied().chain([new]).collect();
    for cpu in others.iter().copied().chain([old]) {
        let value = sgi(cpu, 1 << (cpu & 15));
        let had = receivers(&mut vcpus[0], &controller, &others, value);
        println!("{what}, {cpu:x} then: {had}");
    }
    // Linux 6.12 keeps the table of the first run, which does not have the new affinity.
    if std::fs::read_to_string("/proc/version").is_ok_and(|version| version.contains("stile")) {
        let had = receivers(&mut vcpus[0], &controller, &all, sgi(new, 1 << (new & 15)));
        assert_eq!(had, format!("{new:x}"));
    }
    host::reset(&vm, &vcpus[1]);
    println!("{what}, reset: {:x?}", get(&vcpus[1], MPIDR));
}

/// The CPUs with these affinities that receive the SGI that `sender` sends by `value`; it is then
/// cleared.
fn receivers(sender: &mut VcpuFd, controller: &DeviceFd, of: &[u64], value: u64) -> String {
    set(sender, X0, value).expect("x0");
    assert!(matches!(sender.run(), Ok(VcpuExit::MmioWrite(..))));
    let had = of.iter().filter(|&&cpu| {
        let pending = word(controller, cpu, PENDING) >> 5 & 1 == 1;
        set_word(controller, cpu, PENDING, 0);
        pending
    });
    let had: Vec<String> = had.map(|cpu| format!("{cpu:x}")).collect();
    had.join(" ")
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let numbered: Vec<u64> = (0..18).map(|id| id >> 4 << 8 | id & 15).collect();
    shape(kvm, "numbered", &numbered);
    shape(kvm, "anywhere", &anywhere(12));
    shape(
        kvm,
        "four levels",
        &[0, 1, 0x100, 0x10001, 0x100_0000, 0x101_0101],
    );
    shape(
        kvm,
        "high",
        &[0xff00_0000, 0xff00_0001, 0xff00_ff0f, 0xffff_ff0f],
    );
    shape(kvm, "twins", &[7, 7, 0x100]);
}
