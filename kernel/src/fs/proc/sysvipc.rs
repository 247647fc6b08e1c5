//! `/proc/sysvipc`: the objects of System V IPC, one per line.

use super::super::seq_file::{Node, Text};
use crate::errno::Result;
use crate::ipc::sysv_msg::QUEUES;
use crate::ipc::sysv_sem::SETS;
use crate::ipc::sysv_shm::SEGMENTS;
use crate::ipc::{Header, Object, PLACES, Registry};
use crate::mm::page_up;
use crate::put;
use crate::task::sched::cond_resched_killable;

/// The files.
pub const FILES: &[(&str, Node)] = &[
    ("msg", Node::Records(queues)),
    ("sem", Node::Records(sets)),
    ("shm", Node::Records(segments)),
];

/// Writes the line of the next object: the columns that all kinds have, then those that `rest`
/// writes. Before the first object it writes the line with the column names.
fn line<T: Object>(
    place: u64,
    text: &mut Text,
    registry: &Registry<T>,
    columns: &str,
    rest: fn(&T, &Header, &mut Text),
) -> Result<Option<u64>> {
    cond_resched_killable()?;
    let Some(at) = place.checked_sub(1) else {
        put!(text, "{columns}\n");
        return Ok(Some(1));
    };
    let Some((number, object)) = registry.at_or_after(at as usize) else {
        return Ok(None);
    };
    let header = object.with_header(|header| *header);
    put!(text, "{:10} {number:10}  {:4o} ", header.key, header.mode);
    rest(&object, &header, text);
    Ok(Some((number % PLACES) as u64 + 2))
}

fn put_owners(text: &mut Text, header: &Header) {
    for id in [header.uid, header.gid, header.cuid, header.cgid] {
        put!(text, "{id:5} ");
    }
}

fn queues(place: u64, text: &mut Text) -> Result<Option<u64>> {
    const COLUMNS: &str = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      \
        stime      rtime      ctime";
    line(place, text, &QUEUES, COLUMNS, |queue, header, text| {
        let (_, status) = queue.status();
        let [sender, receiver] = status.users;
        let [sent, received, changed] = status.times;
        put!(text, " {:10} {:10} ", status.bytes, status.count);
        put!(text, "{sender:5} {receiver:5} ");
        put_owners(text, header);
        put!(text, "{sent:10} {received:10} {changed:10}\n");
    })
}

fn sets(place: u64, text: &mut Text) -> Result<Option<u64>> {
    const COLUMNS: &str =
        "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime";
    line(place, text, &SETS, COLUMNS, |set, header, text| {
        let (_, [operated, changed], count) = set.status();
        put!(text, "{count:10} ");
        put_owners(text, header);
        put!(text, "{operated:10} {changed:10}\n");
    })
}

fn segments(place: u64, text: &mut Text) -> Result<Option<u64>> {
    const COLUMNS: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
        atime      dtime      ctime                   rss                  swap";
    line(place, text, &SEGMENTS, COLUMNS, |segment, header, text| {
        let (_, times, [creator, last]) = segment.status();
        put!(text, "{:21} {creator:5} {last:5}  ", segment.size);
        put!(text, "{:5} ", segment.attached());
        put_owners(text, header);
        put!(text, "{:10} {:10} ", times.attached, times.detached);
        put!(
            text,
            "{:10} {:21} {:21}\n",
            times.changed,
            page_up(segment.size),
            0
        );
    })
}
