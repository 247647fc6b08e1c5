//! Programs with an ELF property note (NT_GNU_PROPERTY_TYPE_0).

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::in_child;

const PT_LOAD: u32 = 1;
const PT_GNU_PROPERTY: u32 = 0x6474_e553;
const BASE: u32 = 0x10000;
/// The size of the headers.
const HEADERS: u32 = 52 + 2 * 32;

/// A program with these properties that exits with status 7.
fn program(properties: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> = [4, properties.len() as u32, 5]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    note.extend(b"GNU\0");
    note.extend(properties);
    let code = [0xe3a0_0007u32, 0xe3a0_7001, 0xef00_0000];
    let at = HEADERS + code.len() as u32 * 4;
    let whole = at + note.len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut words = |words: &[u32]| file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    // ET_EXEC, EM_ARM; version, entry, headers; flags; sizes.
    words(&[2 | 40 << 16, 1, BASE + HEADERS, 52, 0, 0x0500_0000]);
    words(&[52 | 32 << 16, 2, 0]);
    words(&[PT_LOAD, 0, BASE, BASE, whole, whole, 5, 4096]);
    let len = note.len() as u32;
    words(&[PT_GNU_PROPERTY, at, BASE + at, BASE + at, len, len, 4, 4]);
    words(&code);
    file.extend(note);
    file
}

/// Runs this part.
pub fn run() {
    let one = |kind: u32, len: u32| {
        let mut bytes: Vec<u8> = [kind, len].into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.resize(8 + len as usize, 0);
        bytes
    };
    for (what, properties) in [
        ("none", vec![]),
        ("one of 4 bytes", one(0xc000_0000, 4)),
        ("two of 4 bytes", [one(1, 4), one(0xc000_0000, 4)].concat()),
        ("one of 8 bytes", one(0xc000_0000, 8)),
        ("one of 0 bytes", one(0xc000_0000, 0)),
        ("one of 2 bytes", one(0xc000_0000, 2)),
        ("out of order", [one(2, 4), one(1, 4)].concat()),
        ("cut off", one(2, 4)[..7].to_vec()),
    ] {
        let path = "./with-properties";
        _ = fs::remove_file(path);
        fs::write(path, program(&properties)).expect("room for a program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its rights");
        in_child(what, || {
            let path = CString::new(path).expect("no zero");
            let arguments = [path.as_ptr(), std::ptr::null()];
            // SAFETY: the array ends with a null pointer.
            unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
            print!("{}; ", std::io::Error::last_os_error());
        });
    }
}
