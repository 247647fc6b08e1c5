//! The tables in the guest's memory (Linux's `Documentation/virt/kvm/devices/arm-vgic-its.rst`,
//! revision 0): written when a VMM saves a machine, and read back when it restores it.

use alloc::vec::Vec;

use super::commands::{ENTRY, Passed, configure_all, entry, take_pending};
use super::{
    Collection, Device, Injector, Its, Machine, PAGES, Steps, TABLE_PAGE, Translation, VALID,
};
use crate::{NoMemory, tables};

/// Why tables were not saved or not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaved {
    /// The guest has no memory there.
    Absent,
    /// The content of the tables is invalid.
    Invalid,
    /// There was not enough memory.
    NoMemory,
}

impl From<NoMemory> for Unsaved {
    fn from(_: NoMemory) -> Self {
        Unsaved::NoMemory
    }
}

impl From<Passed> for Unsaved {
    fn from(_: Passed) -> Self {
        Unsaved::Invalid
    }
}

/// The maximum distance to the next entry of a device table that an entry can give.
const DEVICE_STEP: u16 = (1 << 14) - 1;
/// The maximum number of collections: the number of collection numbers.
const MOST_COLLECTIONS: u64 = 1 << 16;

impl Its {
    /// Writes all tables.
    pub fn save(&self, injector: &Injector, machine: &impl Machine) -> Result<(), Unsaved> {
        let mut events = Vec::new();
        events
            .try_reserve_exact(injector.index.len())
            .map_err(|_| Unsaved::NoMemory)?;
        events.extend(injector.index.all());
        let mut steps = Steps::default();
        heapsort::sort_by(&mut events, |one, other| {
            steps.next(machine);
            (one.device, one.event).cmp(&(other.device, other.event))
        });
        for (at, device) in self.devices.iter().enumerate() {
            let address =
                entry(machine, self.device_table, device.number).ok_or(Unsaved::Invalid)?;
            let first = events.partition_point(|known| known.device < device.number);
            let end = events.partition_point(|known| known.device <= device.number);
            save_events(machine, device, &events[first..end])?;
            let next = self.devices.get(at + 1);
            let step = next.map_or(0, |next| (next.number - device.number).min(DEVICE_STEP));
            let value =
                VALID | u64::from(step) << 49 | device.table >> 8 << 5 | u64::from(device.bits - 1);
            put(machine, address, value)?;
            pause(machine)?;
        }
        self.save_collections(machine)
    }

    fn save_collections(&self, machine: &impl Machine) -> Result<(), Unsaved> {
        if self.collection_table & VALID == 0 {
            return Ok(());
        }
        let room = ((self.collection_table & PAGES) + 1) * TABLE_PAGE / ENTRY;
        let mapped = self
            .collections
            .iter()
            .filter_map(|one| Some((one.number, one.target?)));
        let mut count = 0;
        for (number, target) in mapped {
            if count == room {
                return Err(Unsaved::Invalid);
            }
            let value = VALID | u64::from(target) << 16 | u64::from(number);
            self.put_collection(machine, count, value)?;
            pause(machine)?;
            count += 1;
        }
        // A zero entry ends the table.
        if count < room {
            self.put_collection(machine, count, 0)?;
        }
        Ok(())
    }

    fn put_collection(&self, machine: &impl Machine, at: u64, value: u64) -> Result<(), Unsaved> {
        put(machine, self.collection_base() + at * ENTRY, value)
    }

    fn collection_base(&self) -> u64 {
        let table = self.collection_table;
        table & 0x0000_ffff_ffff_0000 | (table >> 12 & 0xf) << 48
    }

    /// Reads all tables, and discards all previous state.
    pub fn restore(&mut self, injector: &Injector, machine: &impl Machine) -> Result<(), Unsaved> {
        self.drop_devices(injector, machine);
        self.collections = Vec::new();
        self.restore_collections(machine)?;
        if self.device_table & VALID == 0 {
            return Ok(());
        }
        let mut number = 0;
        while let Ok(device) = u16::try_from(number) {
            let step = match entry(machine, self.device_table, device) {
                Some(address) => {
                    let value = get(machine, address)?;
                    self.restore_device(injector, machine, device, value)?
                }
                // There is no second-level table here, or no table at all; later entries may exist.
                None => 1,
            };
            if step == 0 {
                break;
            }
            pause(machine)?;
            number += step;
        }
        Ok(())
    }

    fn restore_collections(&mut self, machine: &impl Machine) -> Result<(), Unsaved> {
        if self.collection_table & VALID == 0 {
            return Ok(());
        }
        let room = ((self.collection_table & PAGES) + 1) * TABLE_PAGE / ENTRY;
        // Sorted once at the end, so that inserting in an unfavourable order takes no quadratic
        // time.
        let mut found = Vec::new();
        for at in 0..room.min(MOST_COLLECTIONS + 1) {
            let value = get(machine, self.collection_base() + at * ENTRY)?;
            if value & VALID == 0 {
                break;
            }
            let number = value as u16;
            let target =
                u16::try_from(value >> 16 & 0xf_ffff_ffff).map_err(|_| Unsaved::Invalid)?;
            if machine.place(target).is_none()
                || entry(machine, self.collection_table, number).is_none()
            {
                return Err(Unsaved::Invalid);
            }
            found.try_reserve(1).map_err(|_| Unsaved::NoMemory)?;
            found.push(Collection {
                number,
                target: Some(target),
            });
            pause(machine)?;
        }
        let mut steps = Steps::default();
        heapsort::sort_by(&mut found, |one, other| {
            steps.next(machine);
            one.number.cmp(&other.number)
        });
        if found.windows(2).any(|two| two[0].number == two[1].number) {
            return Err(Unsaved::Invalid);
        }
        self.collections = found;
        Ok(())
    }

    fn has_collection(&self, number: u16) -> bool {
        self.collections
            .binary_search_by_key(&number, |one| one.number)
            .is_ok()
    }

    /// Reads a device's entry and all of its events. Returns the distance to the next device; 1 if
    /// the entry is not valid.
    fn restore_device(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        number: u16,
        value: u64,
    ) -> Result<u32, Unsaved> {
        if value & VALID == 0 {
            return Ok(1);
        }
        let bits = (value & 0x1f) as u32 + 1;
        let table = (value >> 5 & 0xfff_ffff_ffff) << 8;
        self.add_device(number, bits, table)?;
        let mut event = 0u32;
        while event >> bits.min(16) == 0 {
            let value = get(machine, table + u64::from(event) * ENTRY)?;
            let (step, lpi, collection) =
                ((value >> 48) as u32, (value >> 16) as u32, value as u16);
            if lpi == 0 {
                event += 1;
                pause(machine)?;
                continue;
            }
            if !self.has_collection(collection) {
                return Err(Unsaved::Invalid);
            }
            self.add_event(injector, machine, number, event as u16, lpi, collection)?;
            pause(machine)?;
            if step == 0 {
                break;
            }
            event += step;
        }
        Ok((value >> 49 & u64::from(DEVICE_STEP)) as u32)
    }
}

fn save_events(
    machine: &impl Machine,
    device: &Device,
    events: &[Translation],
) -> Result<(), Unsaved> {
    for (at, known) in events.iter().enumerate() {
        let next = events.get(at + 1);
        let step = next.map_or(0, |next| next.event - known.event);
        let value =
            u64::from(step) << 48 | u64::from(known.lpi) << 16 | u64::from(known.collection);
        put(
            machine,
            device.table + u64::from(known.event) * ENTRY,
            value,
        )?;
        pause(machine)?;
    }
    Ok(())
}

/// Writes the pending state of the LPIs of the virtual CPU at this place into its table.
pub fn save_pending(machine: &impl Machine, place: u16) -> Result<(), Unsaved> {
    let Some(private) = machine
        .private(place)
        .filter(|private| private.has_lpis_on())
    else {
        return Ok(());
    };
    for (lpi, pending) in machine.shared().lpis_of(place) {
        let (address, bit) = tables::pending_bit(private, lpi);
        let mut byte = [0];
        if !machine.read(address, &mut byte) {
            return Err(Unsaved::Absent);
        }
        let new = if pending {
            byte[0] | bit
        } else {
            byte[0] & !bit
        };
        if new != byte[0] && !machine.write(address, &[new]) || !machine.pause() {
            return Err(Unsaved::Absent);
        }
    }
    Ok(())
}

/// Called after the virtual CPU at this place has turned LPIs on: from now on its tables configure
/// them.
pub fn turned_on(machine: &impl Machine, place: u16) {
    configure_all(machine, place);
    for (lpi, _) in machine.shared().lpis_of(place) {
        take_pending(machine, place, lpi);
        if !machine.pause() {
            return;
        }
    }
}

/// Lets others run; fails if the machine is being destroyed.
fn pause(machine: &impl Machine) -> Result<(), Unsaved> {
    machine.pause().then_some(()).ok_or(Unsaved::Invalid)
}

fn get(machine: &impl Machine, address: u64) -> Result<u64, Unsaved> {
    let mut bytes = [0; ENTRY as usize];
    if !machine.read(address, &mut bytes) {
        return Err(Unsaved::Absent);
    }
    Ok(u64::from_le_bytes(bytes))
}

fn put(machine: &impl Machine, address: u64, value: u64) -> Result<(), Unsaved> {
    if machine.write(address, &value.to_le_bytes()) {
        Ok(())
    } else {
        Err(Unsaved::Absent)
    }
}
