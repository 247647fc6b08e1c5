#![no_main]

use hosted::fuzz::{proc_writes, try_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| try_bytes(proc_writes, bytes));
