//! Random operations compared with a model, on images of all kinds.

mod support;

use support::model::{Pair, dump};
use support::{WRITTEN, fsck, make, mount, rounds};

#[test]
fn random_operations_agree_with_a_model() {
    for (kind, arguments) in WRITTEN.iter().enumerate() {
        let Some(image) = make(if arguments.contains("4096") { 16 } else { 6 }, arguments) else {
            return;
        };
        for round in 0..rounds() {
            let mut pair = Pair::new(mount(image.clone()), (kind + round * 100) as u64);
            pair.longest = if round % 2 == 0 { 200 } else { 20 };
            for _ in 0..400 {
                pair.step();
            }
            assert_eq!(
                dump(&mut pair.fs).unwrap(),
                pair.model.dump(),
                "{arguments}"
            );
            let image = pair.fs.unmount().unwrap().image;
            fsck(&image, arguments);
            let mut again = mount(image);
            assert_eq!(
                dump(&mut again).unwrap(),
                pair.model.dump(),
                "{arguments}, again"
            );
        }
    }
}
