//! Journals that debugfs writes are replayed: each version of checksums, and revoked blocks.

mod support;

use support::model::{Pair, dump};
use support::{Disk, Scratch, WRITTEN, debugfs, fsck, make, mount, run, try_mount};

#[test]
fn journals_of_debugfs_are_replayed() {
    let (one, two) = (Scratch::new(&[0x11; 3 * 1024]), Scratch::new(&[0x22; 1024]));
    // The magic number of the journal at the beginning of a block must be escaped.
    let mut magic = [0x33; 1024];
    magic[..4].copy_from_slice(&0xc03b_3998_u32.to_be_bytes());
    let three = Scratch::new(&magic);
    for features in ["", "-O ^64bit", "-O ^metadata_csum,^64bit"] {
        for version in ["", "-c -v 2", "-c -v 3"] {
            let Some(image) = make(6, &format!("-b 1024 -J size=1 {features}")) else {
                return;
            };
            let commands = [
                format!("jo {version}"),
                format!("jw -b 5000,5001,5002 {}", one.0.display()),
                format!("jw -b 5001 {}", two.0.display()),
                "jw -r 5002".to_string(),
                format!("jw -b 5003 {}", three.0.display()),
                "jc".to_string(),
            ];
            let (image, told) = debugfs(&image, &commands);
            let what = format!("{features} {version}: {told}");
            let mut fs = try_mount(Disk::new(image), true).unwrap();
            let image = &fs.device().image;
            let block = |number: usize| &image[number * 1024..(number + 1) * 1024];
            assert!(block(5000) == [0x11; 1024], "{what}");
            assert!(block(5001) == [0x22; 1024], "{what}");
            assert!(block(5002) == [0; 1024], "{what}");
            assert!(block(5003) == magic, "{what}");
            fsck(image, &what);
        }
    }
}

#[test]
fn e2fsck_replays_our_journals() {
    for (kind, arguments) in WRITTEN.iter().enumerate() {
        let Some(image) = make(if arguments.contains("4096") { 12 } else { 5 }, arguments) else {
            return;
        };
        let mut pair = Pair::new(mount(image), kind as u64 + 50);
        for _ in 0..150 {
            pair.step();
        }
        pair.fs.commit().unwrap();
        let file = Scratch::new(&pair.fs.device().image);
        let path = file.0.to_str().unwrap();
        run("e2fsck", &["-fy", "-E", "journal_only", path]).unwrap();
        let image = std::fs::read(&file.0).unwrap();
        fsck(&image, arguments);
        let mut fs = try_mount(Disk::new(image), true).unwrap();
        assert!(dump(&mut fs).unwrap() == pair.model.dump(), "{arguments}");
    }
}
