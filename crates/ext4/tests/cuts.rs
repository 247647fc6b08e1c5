//! Power cuts: the disk loses any of the writes that were not flushed.

mod support;

use std::collections::BTreeMap;

use ext4::Fs;
use support::model::{Pair, dump};
use support::workloads::{ALL, Workload};
use support::{Disk, Event, Random, WRITTEN, fsck, make, mount, rounds, try_mount};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A cut of the power at an event: what was flushed is there, of the rest any part. A block may be
/// written to the middle, but not that of the superblock, which has no copy to replay.
fn cut(start: &[u8], events: &[Event], at: usize, random: &mut Random) -> Vec<u8> {
    let mut image = start.to_vec();
    let flushed = events[..at]
        .iter()
        .rposition(|event| matches!(event, Event::Flush));
    let all_or_part = random.below(3);
    for (index, event) in events[..at].iter().enumerate() {
        let Event::Write(place, content) = event else {
            continue;
        };
        let lost = flushed.is_none_or(|flushed| index > flushed)
            && (all_or_part == 0 || all_or_part == 1 && random.below(2) == 0);
        let torn = lost && all_or_part == 1 && *place > 1024 && random.below(2) == 0;
        let there = match (lost, torn) {
            (false, _) => content.len(),
            (true, true) => random.below(content.len() / SECTOR) * SECTOR,
            (true, false) => 0,
        };
        image[*place..*place + there].copy_from_slice(&content[..there]);
    }
    image
}

/// The power is cut once more while the file system is mounted.
fn mount_again(image: Vec<u8>, random: &mut Random) -> Fs<Disk> {
    let mut disk = Disk::new(image.clone());
    disk.record = Some(Vec::new());
    let mut fs = try_mount(disk, false).unwrap();
    let events = fs.device().record.take().unwrap();
    let image = cut(&image, &events, random.below(events.len() + 1), random);
    mount(image)
}

/// Cuts the power while a workload runs, at some or at all events.
fn cut_workload(start: &[u8], arguments: &str, workload: Workload, seed: u64) -> usize {
    let mut pair = Pair::new(mount(start.to_vec()), seed);
    let start = pair.fs.device().image.clone();
    pair.fs.device().record = Some(Vec::new());
    // The contents after each operation, and how many events had happened.
    let mut states = vec![(0, true, pair.model.dump())];
    for turn in 0..200 {
        let committed = pair.work(workload, turn + seed as usize % 10);
        let events = pair.fs.device().record.as_ref().unwrap().len();
        states.push((events, committed, pair.model.dump()));
    }
    let events = pair.fs.device().record.take().unwrap();
    let mut random = Random(seed);
    let step = if rounds() > 1 { 1 } else { 29 };
    let mut cuts = 0;
    for at in (random.below(step)..=events.len()).step_by(step) {
        let image = cut(&start, &events, at, &mut random);
        let mut fs = match random.below(3) {
            0 => mount_again(image, &mut random),
            _ => try_mount(Disk::new(image), false).unwrap(),
        };
        let found = dump(&mut fs).unwrap();
        let first = states
            .iter()
            .rposition(|(end, done, _)| *done && *end <= at)
            .unwrap();
        let matching = states[first..].iter().any(|(_, _, state)| *state == found);
        let what = format!("{arguments}: {workload:?} {seed}: cut {at}");
        assert!(matching, "{what}");
        fsck(&fs.unmount().unwrap().image, &what);
        cuts += 1;
    }
    cuts
}

#[test]
fn a_power_cut_leaves_a_state_between_the_last_commit_and_now() {
    let mut cuts = BTreeMap::new();
    for (kind, arguments) in WRITTEN.iter().enumerate() {
        let Some(start) = make(if arguments.contains("4096") { 12 } else { 5 }, arguments) else {
            return;
        };
        for round in 0..rounds() {
            for workload in ALL {
                let seed = (kind + round * 10) as u64 + 1000;
                *cuts.entry(format!("{workload:?}")).or_insert(0) +=
                    cut_workload(&start, arguments, workload, seed);
            }
        }
        let all: usize = cuts.values().sum();
        println!("{all} cuts, with {arguments}: {cuts:?}");
    }
}
