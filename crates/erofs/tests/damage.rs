//! Damaged images: an error or other content, and never a panic or a loop without end.

mod support;

use proptest::prelude::*;
use support::sample::sample;
use support::walk::exercise;
use support::{content, find, mount};

#[test]
fn the_sound_image_is_read() {
    for bits in [9, 12] {
        let fs = mount(sample(bits)).unwrap();
        for (path, byte) in [
            ("plain", b'p'),
            ("inline", b'i'),
            ("compressed", b'z'),
            ("many/name 299", b'p'),
        ] {
            let inode = find(&fs, path).unwrap();
            let read = content(&fs, &inode).unwrap();
            assert!(read.iter().all(|other| *other == byte), "{path}");
        }
        let inode = find(&fs, "inline").unwrap();
        assert_eq!(fs.attribute(&inode, b"user.infixy").unwrap(), b"22");
        assert_eq!(fs.attribute(&inode, b"security.shared").unwrap(), b"value");
        let inode = find(&fs, "folder/again").unwrap();
        assert_eq!(fs.read_link(&inode).unwrap(), b"inline");
    }
}

/// A place where the image is not empty, and what is there then.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, u8)> {
    let byte = prop_oneof![Just(0), Just(0xff), any::<u8>()];
    (any::<prop::sample::Index>(), 0..8usize, byte)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 600 }))]

    #[test]
    fn changed_bytes_do_no_harm(
        bits in 9..=12u8,
        changes in prop::collection::vec(change(), 1..12),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut image = sample(bits);
        let used: Vec<_> = (0..image.len()).filter(|at| image[*at] != 0).collect();
        for (place, offset, byte) in changes {
            let at = used[place.index(used.len())] + offset;
            if let Some(old) = image.get_mut(at) {
                *old = byte;
            }
        }
        if let Some(end) = end {
            image.truncate(end.index(image.len()));
        }
        exercise(image);
    }
}
