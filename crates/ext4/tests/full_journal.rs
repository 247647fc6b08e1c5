//! Transactions as large as the journal allows, with many blocks that are freed and revoked: a
//! commit always has the room that it needs, and a power cut leaves a consistent file system.

mod support;

use ext4::{Fs, New, ROOT};
use support::{Disk, Event, fsck, make, mount};

fn new(mode: u16) -> New<'static> {
    New {
        mode,
        ..New::default()
    }
}

/// Makes directories of many blocks, and removes them, without a commit of its own.
fn churn(fs: &mut Fs<Disk>, rounds: u32) {
    for round in 0..rounds {
        let name = format!("directory {round}").into_bytes();
        let directory = fs.create(ROOT, &name, new(0o040755)).unwrap().number;
        let entry = |number: u32| format!("{number} {}", "z".repeat(240)).into_bytes();
        for number in 0..1900 {
            fs.create(directory, &entry(number), new(0o010644)).unwrap();
        }
        for number in 0..1900 {
            let inode = fs.unlink(directory, &entry(number)).unwrap();
            fs.evict(inode.number).unwrap();
        }
        fs.rmdir(ROOT, &name).unwrap();
        fs.evict(directory).unwrap();
    }
}

#[test]
fn a_commit_has_the_room_that_it_needs() {
    let kind = "-b 1024 -J size=1 -N 2048";
    let Some(image) = make(12, kind) else { return };
    let mut fs = mount(image);
    let start = fs.device().image.clone();
    fs.device().record = Some(Vec::new());
    churn(&mut fs, 2);
    let events = fs.device().record.take().unwrap();
    assert!(!fs.is_aborted());
    let flushes: Vec<usize> = (0..events.len())
        .filter(|at| matches!(events[*at], Event::Flush))
        .collect();
    assert!(flushes.len() > 3, "{}", flushes.len());
    fsck(&fs.unmount().unwrap().image, kind);
    // All that was written before one of the flushes.
    for last in flushes.into_iter().step_by(2) {
        let mut image = start.clone();
        for event in &events[..last] {
            if let Event::Write(place, content) = event {
                image[*place..*place + content.len()].copy_from_slice(content);
            }
        }
        fsck(&mount(image).unmount().unwrap().image, kind);
    }
}
