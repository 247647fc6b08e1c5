//! Instructions that Armv8 deprecates or removes: SWP, CP15 barriers, SETEND. `/proc/sys/abi`
//! selects for each whether it is undefined, emulated or executed by the hardware.

use std::arch::asm;
use std::fs;

use crate::in_child;

/// Runs this part.
pub fn run() {
    for name in ["cp15_barrier", "setend", "swp"] {
        let path = format!("/proc/sys/abi/{name}");
        let shown = || fs::read_to_string(&path).map_err(|error| error.raw_os_error());
        println!("{name} {:?}", shown());
        for mode in ["0", "1", "2", "3", "-1", "x"] {
            let written = fs::write(&path, mode).map_err(|error| error.raw_os_error());
            println!("  {mode}: {written:?} {:?}", shown());
            if written.is_err() || mode == "0" {
                // A CPU may trap the instruction or execute it.
                continue;
            }
            in_child("  executed", || match name {
                "cp15_barrier" => barriers(),
                "setend" => endianness(),
                _ => {
                    swaps();
                    conditions();
                }
            });
        }
    }
}

fn barriers() {
    // SAFETY: barriers have no other effect.
    unsafe {
        asm!(
            ".inst 0xee070fba", // mcr p15, 0, r0, c7, c10, 5
            ".inst 0xee070f9a", // mcr p15, 0, r0, c7, c10, 4
            ".inst 0xee070f95", // mcr p15, 0, r0, c7, c5, 4
            in("r0") 0,
        )
    };
}

fn endianness() {
    let word = 0x1122_3344u32;
    let (arm, thumb): (u32, u32);
    // SAFETY: a word is read, and the endianness is restored.
    unsafe {
        asm!(
            ".inst 0xf1010200", // setend be
            "ldr {arm}, [{at}]",
            ".inst 0xf1010000", // setend le
            "blx 2f",
            "b 3f",
            ".thumb",
            "2: .inst.n 0xb658", // setend be
            "ldr {thumb}, [{at}]",
            ".inst.n 0xb650", // setend le
            "bx lr",
            ".arm",
            "3:",
            at = in(reg) &word,
            arm = out(reg) arm,
            thumb = out(reg) thumb,
            out("lr") _,
        )
    };
    print!("{arm:x} {thumb:x}, ");
}

fn swaps() {
    let mut words = [0x1122_3344u32, 0x5566_7788];
    let (word, byte): (u32, u32);
    // SAFETY: a word of our own, and a byte of the next.
    unsafe {
        asm!(
            ".inst 0xe1012090", // swp r2, r0, [r1]
            "add r1, r1, #5",
            ".inst 0xe1413090", // swpb r3, r0, [r1]
            in("r0") 0xaabb_ccddu32,
            inout("r1") words.as_mut_ptr() => _,
            out("r2") word,
            out("r3") byte,
        )
    };
    print!("{word:x} {byte:x} {words:x?}, ");
}

/// Executes SWP under each condition with each combination of flags; prints a bit for each
/// combination with which it took effect.
fn conditions() {
    macro_rules! each {
        ($($swp:literal)*) => {
            [$(done_with(|flags| {
                let mut word = 0u32;
                // SAFETY: a word of our own; the flags are not in use.
                unsafe {
                    asm!(
                        "msr APSR_nzcvq, {flags}",
                        $swp,
                        flags = in(reg) flags,
                        in("r0") 1,
                        in("r1") &raw mut word,
                        out("r2") _,
                    )
                };
                word == 1
            })),*]
        };
    }
    let done: [u16; 15] = each!(
        ".inst 0x01012090" ".inst 0x11012090" ".inst 0x21012090" ".inst 0x31012090"
        ".inst 0x41012090" ".inst 0x51012090" ".inst 0x61012090" ".inst 0x71012090"
        ".inst 0x81012090" ".inst 0x91012090" ".inst 0xa1012090" ".inst 0xb1012090"
        ".inst 0xc1012090" ".inst 0xd1012090" ".inst 0xe1012090"
    );
    print!("{done:x?}, ");
}

fn done_with(is_done: impl Fn(u32) -> bool) -> u16 {
    (0..16).fold(0, |done, flags| {
        done | u16::from(is_done(flags << 28)) << flags
    })
}
