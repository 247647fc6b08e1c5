//! RISC-V's riscv_hwprobe: the call and the vDSO agree. Other machines have no such thing to disagree about.

pub fn run() {
    println!("whole: {}", agree(0..32));
    println!("unknown: {}", agree([-2, -1, 1 << 40]));
}

/// Whether the call and the vDSO give the same answers, and each key of its own.
#[cfg(target_arch = "riscv64")]
fn agree(keys: impl IntoIterator<Item = i64>) -> bool {
    /// riscv_hwprobe(2)
    const CALL: libc::c_long = 258;
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
