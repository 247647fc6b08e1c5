//! `docs/abi.md` agrees with the table. If `STILE_BLESS` is set, the file is rewritten.

use std::{env, fs};

#[test]
fn the_document_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/abi.md");
    let mut wanted = String::new();
    abi::document(&mut wanted).unwrap();
    if env::var_os("STILE_BLESS").is_some() {
        fs::write(path, &wanted).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/abi.md is old: run this test with STILE_BLESS=1"
    );
}
