//! RISC-V's riscv_hwprobe, by the system call and through the vDSO.

use std::io::Error;

/// riscv_hwprobe(2).
const CALL: libc::c_long = 258;
/// RISCV_HWPROBE_WHICH_CPUS.
const WHICH_CPUS: u32 = 1;
/// RISCV_HWPROBE_KEY_IMA_EXT_0 and RISCV_HWPROBE_KEY_HIGHEST_VIRT_ADDRESS.
const IMA_EXT_0: i64 = 4;
const HIGHEST_ADDRESS: i64 = 7;
/// RISCV_HWPROBE_KEY_CPUPERF_0, and RISCV_HWPROBE_KEY_MISALIGNED_SCALAR_PERF with the same meaning.
const MISALIGNED: [i64; 2] = [5, 9];
/// The last key, and the last bit of IMA_EXT_0, in Linux 6.12.
const LAST_KEY: i64 = 9;
const LAST_BIT: u32 = 48;

/// A key and its value.
type Pair = [i64; 2];

unsafe extern "C" {
    /// glibc's function, which uses the vDSO if there is one.
    fn __riscv_hwprobe(
        pairs: *mut Pair,
        count: usize,
        set_len: usize,
        set: *mut u8,
        flags: u32,
    ) -> i32;
}

pub fn run() {
    println!("whole: {}", agree(0..32));
    println!("unknown: {}", agree([-2, -1, 1 << 40]));
    for key in 0..=LAST_KEY {
        let [key, value] = call(&mut [[key, 77]], &mut [], 0).map_or([-2, 0], |pairs| pairs[0]);
        match key {
            IMA_EXT_0 => println!("{key}: {:#x}", value & ((2 << LAST_BIT) - 1)),
            // This depends on the number of page-table levels.
            HIGHEST_ADDRESS => println!("{key}: a power of two: {}", value.count_ones() == 1),
            // A measured value, or unknown.
            _ if MISALIGNED.contains(&key) => println!("{key}: {}", (0..=4).contains(&value)),
            _ => println!("{key}: {value}"),
        }
    }
    println!(
        "beyond: {:?}",
        call(&mut [[1000, 77], [-5, 77], [0, 77]], &mut [], 0)
    );
    println!("flags: {:?}", call(&mut [[0, 77]], &mut [], 4));
    println!("no CPU: {:?}", call(&mut [[0, 77]], &mut [0; 8], 0));
    println!(
        "which without a set: {:?}",
        call(&mut [[0, 0]], &mut [], WHICH_CPUS)
    );
    for pair in [
        [0, 0],
        [0, 1],
        [3, 1],
        [3, 2],
        [IMA_EXT_0, 3],
        [IMA_EXT_0, 1 << 33],
        [1000, 0],
    ] {
        let (mut pairs, mut set) = ([pair], [1]);
        let result = call(&mut pairs, &mut set, WHICH_CPUS);
        println!("which {pair:?}: {result:?} {set:?}");
    }
}

/// Makes the call; returns the pairs that it has changed.
fn call<'a>(pairs: &'a mut [Pair], set: &mut [u8], flags: u32) -> Result<&'a [Pair], i32> {
    let set_start = if set.is_empty() {
        std::ptr::null_mut()
    } else {
        set.as_mut_ptr()
    };
    // SAFETY: both arrays have the stated lengths.
    let result = unsafe {
        libc::syscall(
            CALL,
            pairs.as_mut_ptr(),
            pairs.len(),
            set.len(),
            set_start,
            flags,
        )
    };
    match result {
        0 => Ok(pairs),
        _ => Err(Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// Whether the call and the vDSO agree.
fn agree(keys: impl IntoIterator<Item = i64>) -> bool {
    let mut called: Vec<Pair> = keys.into_iter().map(|key| [key, 77]).collect();
    let mut probed = called.clone();
    let count = probed.len();
    // SAFETY: the array has `count` elements.
    let result = unsafe { __riscv_hwprobe(probed.as_mut_ptr(), count, 0, std::ptr::null_mut(), 0) };
    result == 0 && call(&mut called, &mut [], 0) == Ok(&probed[..])
}
