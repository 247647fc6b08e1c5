//! The cost of operations: for `valgrind --tool=callgrind`, run by hand.

mod support;

use ext4::{New, ROOT};
use support::{fsck, make, mount};

#[test]
#[ignore = "for a profiler"]
fn many_files_are_created() {
    let Some(image) = make(64, "-b 4096 -N 16384 -J size=4") else {
        return;
    };
    let mut fs = mount(image);
    let new = New {
        mode: 0o100644,
        ..New::default()
    };
    for number in 0..8000u32 {
        let name = format!("a file whose name is not short, number {number}");
        fs.create(ROOT, name.as_bytes(), new).unwrap();
        if number % 2000 == 1999 {
            fs.commit().unwrap();
        }
    }
    fsck(&fs.unmount().unwrap().image, "many files");
}
