//! RISC-V's riscv_hwprobe: the call and the vDSO agree. Other machines have no such thing to disagree about.

pub fn run() {
    println!("whole: {}", agree(0..32));
    println!("unknown: {}", agree([-2, -1, 1 << 40]));
}

/// riscv_hwprobe(2)
#[cfg(target_arch = "riscv64")]
const CALL: libc::c_long = 258;

/// What Linux 6.12 answers too: not how fast misaligned accesses are, which it measures, nor the highest address, nor bits and
/// keys of later versions.
#[cfg(target_arch = "riscv64")]
pub fn answers() {
    for key in [0, 1, 2, 3, 4, 6, 8, -1, -2, 1 << 40] {
        let mut pair = [key, 77i64];
        // SAFETY: one pair.
        let result = unsafe { libc::syscall(CALL, &raw mut pair, 1, 0, std::ptr::null_mut::<u8>(), 0) };
        let value = if key == 4 { pair[1] & ((1 << 49) - 1) } else { pair[1] };
        println!("{key}: {result} {} {value:#x}", pair[0]);
    }
    for (count, set_len, flags) in [(1, 0usize, 2usize), (0, 0, 0), (1, 8, 0)] {
        let (mut pair, mut set) = ([3, 77i64], [0u8; 8]);
        // SAFETY: one pair and a set of eight bytes.
        let result = unsafe { libc::syscall(CALL, &raw mut pair, count, set_len, set.as_mut_ptr(), flags) };
        let error = std::io::Error::last_os_error().raw_os_error().filter(|_| result < 0);
        println!("{count} pairs, {set_len} bytes, flags {flags}: {result} {error:?} {}", pair[1]);
    }
}

#[cfg(not(target_arch = "riscv64"))]
pub fn answers() {}

/// Whether the call and the vDSO give the same answers, and each key of its own.
#[cfg(target_arch = "riscv64")]
fn agree(keys: impl IntoIterator<Item = i64>) -> bool {
    unsafe extern "C" {
        /// glibc's, which asks the vDSO where there is one.
        fn __riscv_hwprobe(
            pairs: *mut [i64; 2],
            count: usize,
            set_len: usize,
            set: *mut u8,
            flags: u32,
        ) -> i32;
    }
    let none = std::ptr::null_mut();
    let mut called: Vec<[i64; 2]> = keys.into_iter().map(|key| [key, 77]).collect();
    let mut probed = called.clone();
    let count = called.len();
    // SAFETY: both arrays have `count` elements.
    let results = unsafe {
        (
            libc::syscall(CALL, called.as_mut_ptr(), count, 0, none, 0),
            __riscv_hwprobe(probed.as_mut_ptr(), count, 0, none, 0),
        )
    };
    results == (0, 0) && called == probed
}

#[cfg(not(target_arch = "riscv64"))]
fn agree(_keys: impl IntoIterator<Item = i64>) -> bool {
    true
}
