//! vsock, sockets between guest and host (5.10): a stream that the guest opens to the host's port P
//! is connected to the Unix socket `PATH_P`. The host opens none.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use virtio_bindings::virtio_ids::VIRTIO_ID_VSOCK;
use virtio_queue::{Queue, QueueT};
use virtio_vsock::packet::{PKT_HEADER_SIZE, VsockPacket};
use vm_memory::Bytes;

use super::{Device, each};
use crate::memory::Memory;

/// CIDs of host and guest.
const HOST: u64 = 2;
const GUEST: u64 = 3;
/// The type of streams, and the operations.
const STREAM: u16 = 1;
const REQUEST: u16 = 1;
const RESPONSE: u16 = 2;
const RESET: u16 = 3;
const SHUTDOWN: u16 = 4;
const DATA: u16 = 5;
const CREDIT_UPDATE: u16 = 6;
const CREDIT_REQUEST: u16 = 7;
/// Flags of a shutdown: the sender will send no more; `BOTH`: nor receive.
const SENDS_NO_MORE: u32 = 2;
const BOTH: u32 = 3;
/// The maximum number of bytes in flight in each direction, and in one packet.
const WINDOW: u32 = 64 << 10;
const PIECE: usize = 4096;
/// How long a program of the host may leave its socket full before it loses the stream.
const PATIENCE: Duration = Duration::from_secs(10);

/// Data from the host's end of a stream; empty data is its end.
pub struct Arrival {
    /// The id of the stream.
    pub source: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The credit for data to the guest.
#[derive(Default)]
struct Credit {
    /// Bytes sent; the guest's buf_alloc and fwd_cnt; whether the stream has ended.
    state: Mutex<(u32, u32, u32, bool)>,
    changed: Condvar,
}

impl Credit {
    fn change(&self, change: impl FnOnce(&mut (u32, u32, u32, bool))) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for credit; returns how many bytes may be sent, or `None` once the stream has ended.
    fn wait(&self) -> Option<usize> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |state: &(u32, u32, u32, bool)| {
            let on_the_way = state.0.wrapping_sub(state.2);
            state.1.saturating_sub(on_the_way)
        };
        let blocked = |state: &mut (u32, u32, u32, bool)| room(state) == 0 && !state.3;
        let state = self.changed.wait_while(state, blocked);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        (!state.3).then(|| room(&state) as usize)
    }
}

/// The host's end of a stream.
struct Peer {
    stream: UnixStream,
    credit: Arc<Credit>,
    /// The number of bytes received from the guest.
    taken: u32,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.credit.change(|state| state.3 = true);
    }
}

/// A packet to the guest.
struct Reply {
    stream: u64,
    operation: u16,
    bytes: Vec<u8>,
}

/// The device. A stream's id is the host's port, in the upper half, and the guest's port.
pub struct Vsock {
    path: String,
    arrivals: SyncSender<Arrival>,
    peers: HashMap<u64, Peer>,
    replies: VecDeque<Reply>,
}

impl Vsock {
    /// Connects streams to sockets whose names begin with `path`. Their data goes to `arrivals`.
    pub fn new(path: String, arrivals: SyncSender<Arrival>) -> Self {
        Self {
            path,
            arrivals,
            peers: HashMap::new(),
            replies: VecDeque::new(),
        }
    }

    fn reply(&mut self, stream: u64, operation: u16, bytes: &[u8]) {
        self.replies.push_back(Reply {
            stream,
            operation,
            bytes: bytes.to_vec(),
        });
    }

    /// Connects to the host's socket, and starts to read from it.
    fn connect(&self, source: u64) -> Result<Peer> {
        let stream = UnixStream::connect(format!("{}_{}", self.path, source >> 32))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let credit = Arc::new(Credit::default());
        let (mut from, allowed, to) = (stream.try_clone()?, credit.clone(), self.arrivals.clone());
        thread::Builder::new().spawn(move || {
            let mut buffer = [0; PIECE];
            while let Some(room) = allowed.wait() {
                let len = from.read(&mut buffer[..room.min(PIECE)]).unwrap_or(0);
                allowed.change(|state| state.0 = state.0.wrapping_add(len as u32));
                let bytes = buffer[..len].to_vec();
                if to.send(Arrival { source, bytes }).is_err() || len == 0 {
                    return;
                }
            }
        })?;
        Ok(Peer {
            stream,
            credit,
            taken: 0,
        })
    }

    /// Handles a packet from the guest.
    fn take<B: vm_memory::bitmap::BitmapSlice>(&mut self, packet: &VsockPacket<B>) -> Result<()> {
        let key = u64::from(packet.dst_port()) << 32 | u64::from(packet.src_port());
        if packet.dst_cid() != HOST || packet.type_() != STREAM {
            self.reply(key, RESET, &[]);
            return Ok(());
        }
        let operation = packet.op();
        if operation == REQUEST {
            match self.connect(key) {
                Ok(peer) => {
                    self.peers.insert(key, peer);
                    self.reply(key, RESPONSE, &[]);
                }
                Err(_) => self.reply(key, RESET, &[]),
            }
        }
        let Some(peer) = self.peers.get_mut(&key) else {
            if !matches!(operation, RESET | REQUEST) {
                self.reply(key, RESET, &[]);
            }
            return Ok(());
        };
        peer.credit
            .change(|state| (state.1, state.2) = (packet.buf_alloc(), packet.fwd_cnt()));
        let over = match (operation, packet.data_slice()) {
            (DATA, Some(data)) => {
                let mut bytes = vec![0; data.len()];
                data.read_slice(&mut bytes, 0)?;
                peer.taken = peer.taken.wrapping_add(bytes.len() as u32);
                let lost = peer.stream.write_all(&bytes).is_err();
                if !lost && peer.taken % WINDOW < bytes.len() as u32 {
                    self.reply(key, CREDIT_UPDATE, &[]);
                }
                lost
            }
            (CREDIT_REQUEST, _) => {
                self.reply(key, CREDIT_UPDATE, &[]);
                false
            }
            (SHUTDOWN, _) => {
                if packet.flags() & SENDS_NO_MORE != 0 {
                    let _ = peer.stream.shutdown(Shutdown::Write);
                }
                packet.flags() & BOTH == BOTH
            }
            (RESET, _) => {
                self.peers.remove(&key);
                false
            }
            _ => false,
        };
        if over {
            self.peers.remove(&key);
            self.reply(key, RESET, &[]);
        }
        Ok(())
    }
}

impl Device for Vsock {
    fn kind(&self) -> u32 {
        VIRTIO_ID_VSOCK
    }

    /// Receive, transmit, and events, of which there are none.
    fn queues(&self) -> usize {
        3
    }

    fn configuration(&self) -> Vec<u8> {
        GUEST.to_le_bytes().to_vec()
    }

    fn work(&mut self, queues: &mut [Queue], memory: &Memory) -> Result<bool> {
        let mut any = each(&mut queues[1], memory, |mut chain| {
            self.take(&VsockPacket::from_tx_virtq_chain(
                memory, &mut chain, WINDOW,
            )?)?;
            Ok(0)
        })?;
        while !self.replies.is_empty()
            && queues[0].ready()
            && let Some(mut chain) = queues[0].pop_descriptor_chain(memory)
        {
            let Some(reply) = self.replies.pop_front() else {
                break;
            };
            let head = chain.head_index();
            let mut packet = VsockPacket::from_rx_virtq_chain(memory, &mut chain, WINDOW)?;
            packet.set_header_from_raw(&[0; PKT_HEADER_SIZE])?;
            let room = packet.data_slice().map_or(0, |data| data.len());
            let (now, later) = reply.bytes.split_at(reply.bytes.len().min(room));
            if let Some(data) = packet.data_slice() {
                data.write_slice(now, 0)?;
            }
            let taken = self.peers.get(&reply.stream).map_or(0, |peer| peer.taken);
            packet
                .set_src_cid(HOST)
                .set_dst_cid(GUEST)
                .set_src_port((reply.stream >> 32) as u32)
                .set_dst_port(reply.stream as u32)
                .set_len(now.len() as u32)
                .set_type(STREAM)
                .set_op(reply.operation)
                .set_flags(if reply.operation == SHUTDOWN { BOTH } else { 0 })
                .set_buf_alloc(WINDOW)
                .set_fwd_cnt(taken);
            queues[0].add_used(memory, head, (PKT_HEADER_SIZE + now.len()) as u32)?;
            any = true;
            if !later.is_empty() {
                let bytes = later.to_vec();
                self.replies.push_front(Reply { bytes, ..reply });
            }
        }
        Ok(any)
    }

    fn arrive(&mut self, source: u64, bytes: &[u8]) {
        let operation = if bytes.is_empty() { SHUTDOWN } else { DATA };
        if self.peers.contains_key(&source) {
            self.reply(source, operation, bytes);
        }
    }

    fn reset(&mut self) {
        self.peers.clear();
        self.replies.clear();
    }
}
