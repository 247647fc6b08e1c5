//! A console (5.3): the guest's output goes to standard output.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use anyhow::Result;
use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;
use virtio_queue::{Queue, QueueT};

use super::{Device, each};
use crate::memory::Memory;
use crate::phases::Phases;

/// The device's state.
pub struct Console {
    /// Input for which the guest has provided no buffer yet.
    input: VecDeque<u8>,
    /// Finds marks of phases in the guest's output.
    phases: Option<Phases>,
}

impl Console {
    /// A console on which the guest may mark its phases.
    pub fn new(phases: Option<Phases>) -> Self {
        let input = VecDeque::new();
        Self { input, phases }
    }
}

impl Device for Console {
    fn kind(&self) -> u32 {
        VIRTIO_ID_CONSOLE
    }

    fn queues(&self) -> usize {
        2
    }

    fn work(&mut self, queues: &mut [Queue], memory: &Memory) -> Result<bool> {
        let [receive, send] = queues else {
            return Ok(false);
        };
        let sent = each(send, memory, |chain| {
            let (mut reader, mut out) = (chain.reader(memory)?, io::stdout().lock());
            let mut bytes = [0; 4096];
            loop {
                let len = reader.read(&mut bytes)?;
                if len == 0 {
                    break;
                }
                out.write_all(&bytes[..len])?;
                if let Some(phases) = &mut self.phases {
                    phases.hear(&bytes[..len])?;
                }
            }
            out.flush()?;
            Ok(0)
        })?;
        let mut received = false;
        while !self.input.is_empty()
            && receive.ready()
            && let Some(chain) = receive.pop_descriptor_chain(memory)
        {
            let head = chain.head_index();
            let mut writer = chain.writer(memory)?;
            let len = self.input.len().min(writer.available_bytes());
            let bytes: Vec<u8> = self.input.drain(..len).collect();
            writer.write_all(&bytes)?;
            receive.add_used(memory, head, len as u32)?;
            received = true;
        }
        Ok(sent || received)
    }

    fn arrive(&mut self, _source: u64, bytes: &[u8]) {
        self.input.extend(bytes);
    }
}
