//! The channel to the host: frames over a virtio console or a serial line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use wire::frame::Item;
use wire::{Control, Decoder};

use crate::sys;

/// The size of the backlog for the host, in bytes, from which programs are no longer read.
const BACKLOG: usize = 64 * 1024;

/// The guest's end of the channel.
pub struct Channel {
    device: File,
    outgoing: Vec<u8>,
    /// The cost of the output for which the host has not returned credit.
    under_way: usize,
    decoder: Decoder,
}

impl Channel {
    /// Opens the device in raw mode and tells the host that frames follow.
    pub fn open(path: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        let device = options
            .open(path)
            .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        sys::set_raw(device.as_fd())?;
        Ok(Self {
            device,
            outgoing: wire::SYNC.to_vec(),
            under_way: 0,
            decoder: Decoder::synced(),
        })
    }

    /// Queues a payload as one frame, or as several if it is long.
    pub fn send(&mut self, channel: wire::Channel, payload: &[u8]) {
        if channel != wire::Channel::Control {
            self.under_way += wire::output_cost(payload);
        }
        wire::encode(channel, payload, &mut self.outgoing);
    }

    /// Queues a control message.
    pub fn control(&mut self, control: Control) {
        self.send(wire::Channel::Control, &control.encode());
    }

    /// True if the backlog is so large that no more output should be produced.
    pub fn is_full(&self) -> bool {
        self.outgoing.len() >= BACKLOG || self.under_way >= wire::OUTPUT_WINDOW
    }

    /// The channel's entry for poll(2).
    pub fn poll_entry(&self) -> libc::pollfd {
        let events = if self.outgoing.is_empty() {
            libc::POLLIN
        } else {
            libc::POLLIN | libc::POLLOUT
        };
        crate::job::poll_entry(self.device.as_fd(), events)
    }

    /// Writes as much of the queue as the device accepts now.
    pub fn write(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.device.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the whole queue, and waits until the channel is no longer full. Drops input that
    /// arrives meanwhile.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        while !self.outgoing.is_empty() || self.is_full() {
            sys::poll(&mut [self.poll_entry()])?;
            self.read()?;
            self.write()?;
        }
        Ok(())
    }

    /// Reads the frames that have arrived, except frames of credit.
    pub fn read(&mut self) -> io::Result<Vec<(wire::Channel, Vec<u8>)>> {
        let mut buffer = [0; 4096];
        match self.device.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.decoder.push(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let mut frames = Vec::new();
        while let Some(item) = self.decoder.pop() {
            match item {
                Item::Frame(channel, payload) => match Control::decode(&payload) {
                    Some(Control::Credit(cost)) if channel == wire::Channel::Control => {
                        self.under_way = self.under_way.saturating_sub(cost.into());
                    }
                    _ => frames.push((channel, payload)),
                },
                Item::Noise(_) => {}
                Item::Broken(byte) => {
                    return Err(io::Error::other(format!("frame of channel {byte}")));
                }
            }
        }
        Ok(frames)
    }
}
