//! All CPUs report the same to programs about themselves, however they differ.

use std::fs;
use std::mem;

/// Runs this part.
pub fn run() {
    // SAFETY: a CPU set is plain data, and complete in all calls.
    unsafe {
        let mut allowed: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed);
        let mut first = None;
        for cpu in (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)) {
            let mut only: libc::cpu_set_t = mem::zeroed();
            libc::CPU_SET(cpu, &mut only);
            libc::sched_setaffinity(0, size_of_val(&only), &only);
            let read = readings();
            let first = first.get_or_insert_with(|| read.clone());
            for ((name, value), (_, other)) in first.iter().zip(&read) {
                if value != other {
                    println!("{name}: {value:#x}, but {other:#x} on CPU {cpu}");
                }
            }
        }
    }
    cpuinfo();
    println!("done");
}

/// The lines of `/proc/cpuinfo` about what programs may use are the same for all CPUs.
fn cpuinfo() {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for name in ["Features", "isa"] {
        let mut lines = text.lines().filter(|line| {
            let found = line.split_once(':').map(|(name, _)| name.trim());
            found == Some(name)
        });
        if let Some(first) = lines.next()
            && let Some(other) = lines.find(|line| *line != first)
        {
            println!("{first}, but {other}");
        }
    }
}

/// The names and values that a program can read on this CPU.
#[cfg(target_arch = "aarch64")]
fn readings() -> Vec<(&'static str, u64)> {
    use std::arch::asm;
    macro_rules! read {
        ($($name:literal)*) => { vec![$({
            let value: u64;
            // SAFETY: reads a register that programs may read.
            unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack)) };
            ($name, value)
        }),*] };
    }
    let mut read = read!("id_aa64pfr0_el1" "id_aa64pfr1_el1" "id_aa64isar0_el1" "id_aa64isar1_el1"
        "S3_0_C0_C6_2" "id_aa64mmfr0_el1" "id_aa64mmfr1_el1" "id_aa64mmfr2_el1" "S3_0_C0_C4_4"
        "ctr_el0" "dczid_el0");
    // SAFETY: only a query.
    if unsafe { libc::getauxval(libc::AT_HWCAP) } >> 22 & 1 == 1 {
        for wish in [16, 32, 64, 128, 256] {
            let length: u64;
            // SAFETY: sets the length of registers that nobody uses, and reads it.
            unsafe {
                const PR_SVE_SET_VL: i32 = 50;
                libc::prctl(PR_SVE_SET_VL, wish, 0, 0, 0);
                asm!(".arch_extension sve", "rdvl {}, #1", out(reg) length, options(nomem, nostack))
            };
            read.push(("length of vectors", length));
        }
    }
    read
}

/// The names and values that a program can read on this CPU.
#[cfg(target_arch = "riscv64")]
fn readings() -> Vec<(&'static str, u64)> {
    use std::arch::asm;
    const V: u64 = 1 << (b'v' - b'a');
    // SAFETY: only a query.
    if unsafe { libc::getauxval(libc::AT_HWCAP) } & V == 0 {
        return Vec::new();
    }
    let length: u64;
    // SAFETY: reads vlenb, which exists if vectors do.
    unsafe { asm!("csrr {}, 0xc22", out(reg) length, options(nomem, nostack)) };
    vec![("vlenb", length)]
}
