//! Damaged images lead to an error, never to a panic or an endless loop.

mod support;

use support::exercise::exercise;
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
        for turn in 0..60 * rounds() {
            let mut image = image.clone();
            for _ in 0..1 + random.below(20) {
                let at = used[random.below(used.len())] + random.below(64);
                image[at] = [0, 0xff, image[at] ^ 1 << random.below(8)][random.below(3)];
            }
            images += 1;
            let Ok(mut fs) = try_mount(Disk::new(image), turn % 2 == 0) else {
                continue;
            };
            let operations: Vec<u8> = (0..400).map(|_| random.next() as u8).collect();
            exercise(&mut fs, &operations);
            let _ = fs.unmount();
        }
    }
    println!("{images} images");
}
