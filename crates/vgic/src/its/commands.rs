//! The guest's commands (Arm IHI 0069, 5.3). An invalid command is skipped, as a guest may expect
//! of an ITS that reports no errors.

use super::{
    COLLECTIONS, Collection, DEVICES, Device, INDIRECT, Injector, Its, Machine, PAGES, Steps,
    TABLE_PAGE, Translation, VALID,
};
use crate::lpi::NUMBERS;
use crate::{NoMemory, tables};

/// Commands.
const MOVI: u8 = 0x01;
const INT: u8 = 0x03;
const CLEAR: u8 = 0x04;
const MAPD: u8 = 0x08;
const MAPC: u8 = 0x09;
const MAPTI: u8 = 0x0a;
const MAPI: u8 = 0x0b;
const INV: u8 = 0x0c;
const INVALL: u8 = 0x0d;
const MOVALL: u8 = 0x0e;
const DISCARD: u8 = 0x0f;

/// The maximum number of bits in a device's event numbers.
const EVENT_BITS: u32 = 16;
/// The size of a table entry in bytes.
pub(super) const ENTRY: u64 = 8;

/// The command was skipped.
pub(super) struct Passed;

impl From<NoMemory> for Passed {
    fn from(_: NoMemory) -> Self {
        Passed
    }
}

/// One command's fields.
struct Command([u64; 4]);

impl Command {
    fn kind(&self) -> u8 {
        self.0[0] as u8
    }

    fn device(&self) -> Result<u16, Passed> {
        u16::try_from(self.0[0] >> 32).map_err(|_| Passed)
    }

    fn event(&self) -> Result<u16, Passed> {
        u16::try_from(self.0[1] & u64::from(u32::MAX)).map_err(|_| Passed)
    }

    fn lpi(&self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    fn collection(&self) -> u16 {
        self.0[2] as u16
    }

    /// The number of a virtual CPU in word `word` of the command.
    fn target(&self, word: usize) -> Result<u16, Passed> {
        u16::try_from(self.0[word] >> 16 & u64::from(u32::MAX)).map_err(|_| Passed)
    }

    fn valid(&self) -> bool {
        self.0[2] & VALID != 0
    }
}

impl Its {
    /// Executes one command.
    pub(super) fn command(&mut self, injector: &Injector, machine: &impl Machine, bytes: &[u8]) {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        // Skipped commands have no effect.
        _ = self.run(injector, machine, &Command(words));
    }

    fn run(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        command: &Command,
    ) -> Result<(), Passed> {
        let shared = machine.shared();
        let known = || {
            let found = injector.index.get(command.device()?, command.event()?);
            found.ok_or(Passed)
        };
        match command.kind() {
            MAPD => self.map_device(injector, machine, command)?,
            MAPC => self.map_collection(injector, machine, command)?,
            MAPTI | MAPI => self.map_event(injector, machine, command)?,
            MOVI => {
                let translation = known()?;
                self.target(machine, translation.collection).ok_or(Passed)?;
                let target = self.target(machine, command.collection()).ok_or(Passed)?;
                injector.index.set(Translation {
                    collection: command.collection(),
                    ..translation
                })?;
                let due = shared.move_lpi(translation.lpi.into(), Some(target));
                due.into_iter().for_each(|place| machine.notify(place));
            }
            INT => {
                let (device, event) = (command.device()?, command.event()?);
                let due = injector.inject(machine, device.into(), event.into());
                due.ok()
                    .flatten()
                    .into_iter()
                    .for_each(|place| machine.notify(place));
            }
            CLEAR => shared.clear_lpi(known()?.lpi.into()),
            INV => configure(machine, known()?.lpi.into()),
            INVALL => {
                let place = self.target(machine, command.collection()).ok_or(Passed)?;
                configure_all(machine, place);
            }
            MOVALL => {
                let place = |word| machine.place(command.target(word).ok()?).ok_or(Passed).ok();
                let (from, to) = (place(2).ok_or(Passed)?, place(3).ok_or(Passed)?);
                if from != to {
                    let mut steps = Steps::default();
                    for (lpi, _) in shared.lpis_of(from) {
                        shared.move_lpi(lpi, Some(to));
                        if !steps.next(machine) {
                            break;
                        }
                    }
                    machine.notify(to);
                }
            }
            DISCARD => {
                let translation = known()?;
                self.target(machine, translation.collection).ok_or(Passed)?;
                injector.index.remove(translation.device, translation.event);
                shared.remove_lpi(translation.lpi.into());
            }
            // SYNC and VSYNC: earlier commands have completed already. There are no other commands.
            _ => {}
        }
        Ok(())
    }

    fn map_device(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        command: &Command,
    ) -> Result<(), Passed> {
        let number = command.device()?;
        entry(machine, self.device_table, number).ok_or(Passed)?;
        let bits = (command.0[1] & 0x1f) as u32 + 1;
        if command.valid() && bits > EVENT_BITS {
            return Err(Passed);
        }
        let place = self
            .devices
            .binary_search_by_key(&number, |device| device.number);
        // The previous mapping of the device is removed.
        if let Ok(at) = place {
            self.devices.remove(at);
            let mut steps = Steps::default();
            injector.index.retain(|translation| {
                if translation.device == number {
                    steps.next(machine);
                    machine.shared().remove_lpi(translation.lpi.into());
                }
                translation.device != number
            });
        }
        if command.valid() {
            self.add_device(number, bits, command.0[2] & 0x000f_ffff_ffff_ff00)?;
        }
        Ok(())
    }

    /// Adds a device that does not exist yet.
    pub(super) fn add_device(
        &mut self,
        number: u16,
        bits: u32,
        table: u64,
    ) -> Result<(), NoMemory> {
        let at = self
            .devices
            .partition_point(|device| device.number < number);
        self.devices.try_reserve(1).map_err(|_| NoMemory)?;
        let device = Device {
            number,
            bits,
            table,
        };
        self.devices.insert(at, device);
        Ok(())
    }

    fn map_collection(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        command: &Command,
    ) -> Result<(), Passed> {
        let number = command.collection();
        let place = if !command.valid() {
            if let Ok(at) = self.collection(number) {
                self.collections.remove(at);
            }
            None
        } else {
            let target = command.target(2)?;
            let place = machine.place(target).ok_or(Passed)?;
            self.set_collection(machine, number, Some(target))?;
            Some(place)
        };
        self.route(injector, machine, place, |translation| {
            translation.collection == number
        });
        Ok(())
    }

    /// The index of a collection, or where it would be.
    fn collection(&self, number: u16) -> Result<usize, usize> {
        self.collections
            .binary_search_by_key(&number, |collection| collection.number)
    }

    /// Maps a collection to the virtual CPU with a number; the collection is created if necessary.
    pub(super) fn set_collection(
        &mut self,
        machine: &impl Machine,
        number: u16,
        target: Option<u16>,
    ) -> Result<(), Passed> {
        match self.collection(number) {
            Ok(at) => self.collections[at].target = target,
            Err(at) => {
                entry(machine, self.collection_table, number).ok_or(Passed)?;
                self.collections.try_reserve(1).map_err(|_| Passed)?;
                self.collections.insert(at, Collection { number, target });
            }
        }
        Ok(())
    }

    /// The place of the virtual CPU that a collection is mapped to.
    fn target(&self, machine: &impl Machine, number: u16) -> Option<u16> {
        machine.place(self.collections[self.collection(number).ok()?].target?)
    }

    /// Routes the LPIs of the translations that `which` selects to the virtual CPU at `place`, if
    /// any.
    pub(super) fn route(
        &self,
        injector: &Injector,
        machine: &impl Machine,
        place: Option<u16>,
        which: impl Fn(Translation) -> bool,
    ) {
        let mut steps = Steps::default();
        for translation in injector.index.all().filter(|known| which(*known)) {
            let due = machine.shared().move_lpi(translation.lpi.into(), place);
            due.into_iter().for_each(|place| machine.notify(place));
            if !steps.next(machine) {
                return;
            }
        }
    }

    fn map_event(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        command: &Command,
    ) -> Result<(), Passed> {
        let (device, event) = (command.device()?, command.event()?);
        let lpi = match command.kind() {
            MAPTI => command.lpi(),
            _ => event.into(),
        };
        // Existing mappings are not changed.
        if injector.index.get(device, event).is_some() {
            return Ok(());
        }
        if self.collection(command.collection()).is_err() {
            self.set_collection(machine, command.collection(), None)?;
        }
        self.add_event(injector, machine, device, event, lpi, command.collection())
    }

    /// Adds an event that does not exist yet.
    pub(super) fn add_event(
        &self,
        injector: &Injector,
        machine: &impl Machine,
        device: u16,
        event: u16,
        lpi: u32,
        collection: u16,
    ) -> Result<(), Passed> {
        let known = self
            .devices
            .binary_search_by_key(&device, |device| device.number);
        let bits = self.devices[known.map_err(|_| Passed)?].bits;
        let numbers = NUMBERS.start..tables::end(machine.shared());
        if u32::from(event) >> bits != 0 || !numbers.contains(&lpi) {
            return Err(Passed);
        }
        let target = self.target(machine, collection);
        machine.shared().add_lpi(lpi, target)?;
        injector.index.set(Translation {
            device,
            event,
            lpi: lpi as u16,
            collection,
        })?;
        configure(machine, lpi);
        if let Some(place) = target {
            take_pending(machine, place, lpi);
        }
        Ok(())
    }
}

/// Reads the configuration of an LPI from the guest's table.
pub(crate) fn configure(machine: &impl Machine, lpi: u32) {
    let shared = machine.shared();
    let mut byte = [0];
    if NUMBERS.contains(&lpi)
        && machine.read(tables::property(shared, lpi), &mut byte)
        && let Some(place) = shared.configure_lpi(lpi, byte[0])
    {
        machine.notify(place);
    }
}

/// Reads the configurations of all LPIs routed to the virtual CPU at this place.
pub(crate) fn configure_all(machine: &impl Machine, place: u16) {
    for (lpi, _) in machine.shared().lpis_of(place) {
        configure(machine, lpi);
        if !machine.pause() {
            return;
        }
    }
}

/// Reads an LPI's pending state from the table of the virtual CPU at this place, which has turned
/// LPIs on.
pub(super) fn take_pending(machine: &impl Machine, place: u16, lpi: u32) {
    let Some(private) = machine.private(place) else {
        return;
    };
    let (address, bit) = tables::pending_bit(private, lpi);
    let mut byte = [0];
    if machine.read(address, &mut byte) && byte[0] & bit != 0 {
        machine.write(address, &[byte[0] & !bit]);
        if let Some(place) = machine.shared().raise_lpi(lpi) {
            machine.notify(place);
        }
    }
}

/// The address of a number's entry in a table (BASER), if there is memory for it.
pub(super) fn entry(machine: &impl Machine, table: u64, number: u16) -> Option<u64> {
    debug_assert!([DEVICES, COLLECTIONS].contains(&(table & (7 << 56 | 0x1f << 48 | 3 << 8))));
    let base = table & 0x0000_ffff_ffff_0000 | (table >> 12 & 0xf) << 48;
    let len = ((table & PAGES) + 1) * TABLE_PAGE;
    let number = u64::from(number);
    let address = if table & INDIRECT == 0 {
        (number * ENTRY < len).then(|| base + number * ENTRY)?
    } else {
        let (first, second) = (number / (TABLE_PAGE / ENTRY), number % (TABLE_PAGE / ENTRY));
        let mut pointer = [0; 8];
        if first * ENTRY >= len || !machine.read(base + first * ENTRY, &mut pointer) {
            return None;
        }
        let pointer = u64::from_le_bytes(pointer);
        (pointer & VALID != 0).then(|| (pointer & 0x000f_ffff_ffff_0000) + second * ENTRY)?
    };
    machine.has(address).then_some(address)
}
