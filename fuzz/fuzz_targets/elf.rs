#![no_main]

use hosted::fuzz::{elf, try_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| try_bytes(elf, bytes));
