//! `/proc/sysvipc`: the objects of System V IPC, one a line.

use super::super::seq_file::{Node, Text};
use crate::ipc::sysv_msg::QUEUES;
use crate::ipc::sysv_sem::SETS;
use crate::ipc::sysv_shm::SEGMENTS;
use crate::ipc::{Header, Object, Registry};
use crate::mm::page_up;
use crate::put;

/// The files.
pub const FILES: &[(&str, Node)] = &[
    ("msg", Node::File(queues)),
    ("sem", Node::File(sets)),
    ("shm", Node::File(segments)),
];

/// Writes the lines of all objects: what all kinds have first, then what `rest` writes.
fn lines<T: Object>(text: &mut Text, registry: &Registry<T>, rest: fn(&T, &Header, &mut Text)) {
    registry.for_each(|number, object| {
        let header = object.with_header(|header| *header);
        put!(text, "{:10} {number:10}  {:4o} ", header.key, header.mode);
        rest(object, &header, text);
    });
}

fn put_owners(text: &mut Text, header: &Header) {
    for id in [header.uid, header.gid, header.cuid, header.cgid] {
        put!(text, "{id:5} ");
    }
}

fn queues(text: &mut Text) {
    text.push(b"       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      ");
    text.push(b"stime      rtime      ctime\n");
    lines(text, &QUEUES, |queue, header, text| {
        let (_, status) = queue.status();
        let [sender, receiver] = status.users;
        let [sent, received, changed] = status.times;
        put!(text, " {:10} {:10} ", status.bytes, status.count);
        put!(text, "{sender:5} {receiver:5} ");
        put_owners(text, header);
        put!(text, "{sent:10} {received:10} {changed:10}\n");
    });
}

fn sets(text: &mut Text) {
    text.push(
        b"       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
    );
    lines(text, &SETS, |set, header, text| {
        let (_, [operated, changed], count) = set.status();
        put!(text, "{count:10} ");
        put_owners(text, header);
        put!(text, "{operated:10} {changed:10}\n");
    });
}

fn segments(text: &mut Text) {
    text.push(b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      ");
    text.push(b"atime      dtime      ctime                   rss                  swap\n");
    lines(text, &SEGMENTS, |segment, header, text| {
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
    });
}
