//! Parses any string as `riscv,isa`, and its pieces as `riscv,isa-extensions`: parsing never
//! panics, and the printed result parses to the same extensions.
#![no_main]

use isa::{Extension, Extensions, Hart};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let hart = Hart::from_string(text);
    assert!(hart.malformed.is_none_or(|malformed| malformed.at <= text.len()));
    let (base, names) = text.split_once('_').unwrap_or((text, ""));
    for extensions in [hart.extensions, Hart::from_list(base, names.split('_')).extensions] {
        let shown = Hart::from_string(&format!("rv64{extensions}"));
        let old = Extensions::of(&[Extension::Zicsr, Extension::Zifencei, Extension::Zicntr, Extension::Zihpm]);
        let told = if extensions.has(Extension::I) { extensions.or(old) } else { extensions };
        assert_eq!(shown.extensions, told.resolved());
    }
});
