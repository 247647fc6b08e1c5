//! Look-ups by key: the keys of a keyring.

use std::ffi::CStr;
use std::io;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, many, name};

pub const ROWS: &[Row] = &[
    among(
        "key_add_unlink",
        1_000,
        add_unlink,
        "add_key and KEYCTL_UNLINK in a keyring of N",
    ),
    among(
        "key_search",
        1_000,
        search,
        "KEYCTL_SEARCH in a keyring of N",
    ),
];

/// Adds a key, or a keyring if there is no payload.
fn add(kind: &CStr, description: &CStr, payload: &[u8], keyring: usize) -> io::Result<usize> {
    let (kind, description) = (kind.as_ptr(), description.as_ptr());
    let payload_ptr = if payload.is_empty() {
        std::ptr::null()
    } else {
        payload.as_ptr()
    };
    call!(
        SYS_add_key,
        kind,
        description,
        payload_ptr,
        payload.len(),
        keyring
    )
}

/// A keyring with `number` keys.
fn keyring(number: usize) -> io::Result<usize> {
    let process = libc::KEY_SPEC_PROCESS_KEYRING as usize;
    let keyring = add(c"keyring", c"sizes", b"", process)?;
    many(number, |index| {
        add(c"user", &name(format!("key-{index}")), b"secret", keyring)
    })?;
    Ok(keyring)
}

fn add_unlink(meter: &mut Meter) -> Done {
    let keyring = keyring(meter.size())?;
    meter.repeat(EACH, |_| {
        let key = add(c"user", c"another", b"secret", keyring)?;
        call!(SYS_keyctl, libc::KEYCTL_UNLINK, key, keyring).map(drop)
    })
}

fn search(meter: &mut Meter) -> Done {
    let keyring = keyring(meter.size())?;
    let description = name(format!("key-{}", meter.size() / 2));
    let (kind, operation) = (c"user".as_ptr(), libc::KEYCTL_SEARCH);
    meter.repeat(EACH, |_| {
        call!(
            SYS_keyctl,
            operation,
            keyring,
            kind,
            description.as_ptr(),
            0
        )
        .map(drop)
    })
}
