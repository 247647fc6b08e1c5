//! Damaged images: an error, and never a panic or a loop without end.

mod support;

use support::model::Pair;
use support::{Disk, Random, WRITTEN, make, mount, rounds, try_mount};

#[test]
fn damaged_images_are_refused_or_read() {
    let mut images = 0;
    for (kind, arguments) in WRITTEN.iter().enumerate() {
        let Some(image) = make(if arguments.contains("4096") { 12 } else { 5 }, arguments) else {
            return;
        };
        let mut pair = Pair::new(mount(image), kind as u64);
        for _ in 0..200 {
            pair.step();
        }
        pair.fs.checkpoint().unwrap();
        let image = pair.fs.unmount().unwrap().image;
        // Blocks that are not empty are worth damaging.
        let used: Vec<usize> = (0..image.len())
            .step_by(64)
            .filter(|at| image[*at..*at + 64] != [0; 64])
            .collect();
        let mut random = Random(kind as u64 + 77 * rounds() as u64);
        for turn in 0..15 * rounds() {
            let mut image = image.clone();
            for _ in 0..1 + random.below(20) {
                let at = used[random.below(used.len())] + random.below(64);
                image[at] = [0, 0xff, image[at] ^ 1 << random.below(8)][random.below(3)];
            }
            images += 1;
            let Ok(mut fs) = try_mount(Disk::new(image), turn % 2 == 0) else {
                continue;
            };
            let _ = dump_bounded(&mut fs);
            let _ = fs.unmount();
        }
    }
    println!("{images} images");
}

/// Reads all that the root leads to.
fn dump_bounded(fs: &mut ext4::Fs<Disk>) -> Result<(), ext4::Error> {
    let mut left = vec![ext4::ROOT];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(number) = left.pop() {
        if !seen.insert(number) {
            continue;
        }
        let Ok(inode) = fs.inode(number) else {
            continue;
        };
        let _ = fs.read_link(&inode);
        let _ = fs.attributes(&inode, |_, _| {});
        let _ = fs.map(&inode, 0);
        if inode.is_directory() {
            let _ = fs.lookup(&inode, b"no such name");
            let _ = fs.create(
                number,
                b"new name",
                ext4::New {
                    mode: 0o100600,
                    ..Default::default()
                },
            );
            fs.read_directory(&inode, 0, |entry| {
                left.push(entry.inode);
                true
            })
            .ok();
        } else {
            let _ = fs.allocate(number, 3, 2);
            let _ = fs.mark_written(number, 3, 2);
            let _ = fs.truncate(number, 0);
        }
    }
    let _ = fs.commit();
    Ok(())
}
