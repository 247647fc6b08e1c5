//! Damaged images: the input says which image, and what is changed in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/mod.rs"]
mod support;

use support::sample::sample;
use support::walk::exercise;

fuzz_target!(|input: &[u8]| {
    let [kind, changes @ ..] = input else {
        return;
    };
    let mut image = sample(9 + kind % 4);
    let used: Vec<_> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    // Each change: where, how many bytes, and which.
    for change in changes.chunks_exact(8) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let at = used[place % used.len()] + usize::from(change[2] % 8);
        let length = [1, 2, 4][usize::from(change[3]) % 3];
        if let Some(bytes) = image.get_mut(at..at + length) {
            bytes.copy_from_slice(&change[4..4 + length]);
        }
    }
    if kind & 0x80 != 0 {
        image.truncate(image.len() / 2);
    }
    exercise(image);
});
