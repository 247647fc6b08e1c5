//! Guests with larger or smaller physical addresses: the sizes that a VMM may request, and memory
//! at the end of the address space.

use kvm_ioctls::{Kvm, VcpuExit};

use crate::code;
use crate::host::{self, LEN, MEMORY, PAGE, memory, peek, poke, slot};

/// KVM_CAP_ARM_VM_IPA_SIZE
const SIZE: u64 = 165;
/// The offsets in a page of the word that the guest reads, and of the one that it writes.
const READ: usize = 0x10;
const WRITTEN: usize = 0x18;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    println!("the most: {}", kvm.check_extension_raw(SIZE));
    for bits in [
        0, 1, 31, 32, 33, 36, 39, 40, 41, 42, 43, 44, 45, 48, 49, 52, 64, 256,
    ] {
        match kvm.create_vm_with_type(bits) {
            Ok(vm) => println!(
                "{bits}: {}",
                at_the_end(&vm, if bits == 0 { 40 } else { bits })
            ),
            Err(error) => println!("{bits}: errno {}", error.errno()),
        }
    }
}

/// A guest reads and writes the last page below 2^`bits`, and another in the middle.
fn at_the_end(vm: &kvm_ioctls::VmFd, bits: u64) -> String {
    let (base, len) = (memory(LEN), PAGE);
    host::write(base, code!(pages_start, pages_end));
    let placed = slot(vm, 0, 0, MEMORY, base, LEN);
    let (last, middle, beyond) = ((1 << bits) - PAGE as u64, 1 << (bits - 1), 1 << bits);
    let pages = memory(2 * len);
    let middle_page = pages.wrapping_add(len);
    let slots = [
        slot(vm, 1, 0, last, pages, len),
        slot(vm, 2, 0, middle, middle_page, len),
        slot(vm, 3, 0, beyond, pages, len),
    ];
    poke(pages, READ, bits);
    poke(middle_page, READ, bits + 1);
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(vm, &vcpu);
    let mut command = |what: u64, address: u64| {
        for (register, value) in [(0, what), (1, address), (2, 0x99)] {
            host::set(&vcpu, host::X0 | (register * 2), value).expect("a register");
        }
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(host::DEVICE, data)) => format!("{}", host::number(data)),
            other => format!("{other:x?}"),
        }
    };
    let read = [last, middle].map(|page| command(0, page + READ as u64));
    command(1, last + WRITTEN as u64);
    command(1, middle + WRITTEN as u64);
    let written = [pages, middle_page].map(|page| peek(page, WRITTEN));
    // SAFETY: the mappings made above, which the ended guest no longer uses.
    unsafe {
        libc::munmap(pages.cast(), 2 * len);
        libc::munmap(base.cast(), LEN);
    }
    format!("{placed} {slots:?} {read:?} {written:x?}")
}
