//! An ITS against a simple model, with damaged commands, and through its tables.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, btree_map};

use affinity::Affinity;
use vgic::its::{Dropped, Index, Injector, Its, Machine, Translation, Unsaved, save_pending};
use vgic::redistributor::{self, Identity};
use vgic::vmm::Refused;
use vgic::{Access, Private, Shared};

const CPUS: u16 = 4;
const QUEUE: u64 = 0;
const DEVICES: u64 = 0x1_0000;
const COLLECTIONS: u64 = 0x2_0000;
const PROPERTIES: u64 = 0x3_0000;
const PENDING: u64 = 0x5_0000;
const EVENTS: u64 = 0x9_0000;
const MEMORY: usize = 0x20_0000;

struct Board {
    memory: RefCell<Vec<u8>>,
    shared: Shared,
    private: Vec<Private>,
    told: RefCell<BTreeSet<u16>>,
    pauses: Cell<u32>,
}

impl Machine for Board {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let memory = self.memory.borrow();
        let from = memory
            .get(address as usize..)
            .and_then(|rest| rest.get(..into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        let mut memory = self.memory.borrow_mut();
        let into = memory
            .get_mut(address as usize..)
            .and_then(|rest| rest.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }

    fn has(&self, address: u64) -> bool {
        (address as usize) < MEMORY
    }

    fn place(&self, number: u16) -> Option<u16> {
        (number < CPUS).then_some(number)
    }

    fn private(&self, place: u16) -> Option<&Private> {
        self.private.get(usize::from(place))
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn notify(&self, place: u16) {
        self.told.borrow_mut().insert(place);
    }

    fn pause(&self) -> bool {
        self.pauses.set(self.pauses.get() + 1);
        true
    }
}

struct Unit {
    board: Board,
    injector: Injector,
    its: Its,
}

impl Unit {
    fn new() -> Self {
        let board = Board {
            memory: RefCell::new(vec![0; MEMORY]),
            shared: Shared::new(64, Some(0)).unwrap(),
            private: (0..CPUS).map(|_| Private::new()).collect(),
            told: RefCell::default(),
            pauses: Cell::default(),
        };
        board.shared.add_lpis().unwrap();
        board.memory.borrow_mut()[PROPERTIES as usize..PENDING as usize].fill(0xa1);
        let mut unit = Unit {
            board,
            injector: Injector::new(42),
            its: Its::new(),
        };
        for place in 0..CPUS {
            unit.own(place, 0x70, 8, PROPERTIES | 15);
            unit.own(place, 0x78, 8, PENDING + 0x1_0000 * u64::from(place));
            unit.own(place, 0, 4, 1);
        }
        unit
    }

    fn on() -> Self {
        let mut unit = Unit::new();
        unit.write(0x80, 1 << 63 | QUEUE | 15);
        unit.write(0x100, 1 << 63 | DEVICES);
        unit.write(0x108, 1 << 63 | COLLECTIONS);
        unit.its
            .access(&unit.injector, &unit.board, &access(0, 4, Some(1)));
        unit
    }

    fn own(&mut self, place: u16, offset: u32, len: u32, value: u64) {
        let access = access(offset, len, Some(value));
        if redistributor::is_of_lpis(&self.board.shared, &access) {
            return redistributor::write_of_lpis(&self.board, place, &access);
        }
        let identity = Identity {
            affinity: Affinity::from_mpidr(place.into()),
            number: place,
            last: false,
        };
        let private = &self.board.private[usize::from(place)];
        redistributor::access(private, &self.board.shared, identity, &access);
    }

    fn read(&mut self, offset: u32) -> u64 {
        self.its
            .access(&self.injector, &self.board, &access(offset, 8, None))
    }

    fn write(&mut self, offset: u32, value: u64) {
        self.its
            .access(&self.injector, &self.board, &access(offset, 8, Some(value)));
    }

    fn run(&mut self, command: [u64; 4]) {
        let at = self.read(0x88);
        for (word, value) in command.iter().enumerate() {
            self.board
                .write(QUEUE + at + 8 * word as u64, &value.to_le_bytes());
        }
        self.write(0x88, (at + 32) % 0x1_0000);
        assert_eq!(self.read(0x90), self.read(0x88), "all commands are done");
    }

    fn inject(&self, device: u32, event: u32) -> Result<Option<u16>, Dropped> {
        self.injector.inject(&self.board, device, event)
    }
}

fn access(offset: u32, len: u32, write: Option<u64>) -> Access {
    Access { offset, len, write }
}

fn mapd(device: u64, bits: u64, valid: bool) -> [u64; 4] {
    [
        device << 32 | 8,
        bits - 1,
        (u64::from(valid) << 63) | (EVENTS + device * 0x1000),
        0,
    ]
}

fn mapc(collection: u64, cpu: u64, valid: bool) -> [u64; 4] {
    [9, 0, u64::from(valid) << 63 | cpu << 16 | collection, 0]
}

fn mapti(device: u64, event: u64, lpi: u64, collection: u64) -> [u64; 4] {
    [device << 32 | 0xa, lpi << 32 | event, collection, 0]
}

#[test]
fn a_message_becomes_an_lpi_of_the_collections_cpu() {
    let mut unit = Unit::on();
    unit.run(mapd(7, 3, true));
    unit.run(mapc(1, 2, true));
    unit.run(mapti(7, 5, 8195, 1));
    assert_eq!(unit.inject(7, 5), Ok(Some(2)));
    assert_eq!(unit.inject(7, 4), Err(Dropped::Unknown));
    assert_eq!(unit.inject(1 << 16 | 7, 5), Err(Dropped::Unknown));
    let pending: Vec<_> = unit
        .board
        .shared
        .lpis_of(2)
        .filter(|(_, pending)| *pending)
        .collect();
    assert_eq!(pending, [(8195, true)]);
    unit.board.shared.enable(true);
    assert!(unit.board.shared.has_for(2) && !unit.board.shared.has_for(1));
    // Moved, it is to be looked for elsewhere.
    unit.run(mapc(2, 3, true));
    unit.run([7 << 32 | 1, 5, 2, 0]);
    assert!(unit.board.shared.has_for(3) && !unit.board.shared.has_for(2));
    assert!(unit.board.told.borrow().contains(&3));
    unit.run([7 << 32 | 4, 5, 0, 0]);
    assert!(!unit.board.shared.has_for(3));
    unit.run([7 << 32 | 3, 5, 0, 0]);
    assert!(unit.board.shared.has_for(3));
    unit.run([0xe, 0, 3 << 16, 0]);
    assert!(unit.board.shared.has_for(0));
    unit.run([7 << 32 | 0xf, 5, 0, 0]);
    assert_eq!(unit.inject(7, 5), Err(Dropped::Unknown));
    assert!((0..CPUS).all(|place| !unit.board.shared.has_for(place)));
}

#[test]
fn what_the_guest_disables_waits() {
    let mut unit = Unit::on();
    unit.board.shared.enable(true);
    unit.board.write(PROPERTIES + 8, &[0xa0]);
    unit.run(mapd(0, 1, true));
    unit.run(mapc(0, 0, true));
    unit.run(mapti(0, 1, 8200, 0));
    assert_eq!(unit.inject(0, 1), Ok(None));
    assert!(!unit.board.shared.has_for(0));
    unit.board.write(PROPERTIES + 8, &[0xa1]);
    unit.run([0xc, 1, 0, 0]);
    assert!(unit.board.shared.has_for(0));
    // LPIs off: nothing arrives, and nothing stays.
    unit.own(0, 0, 4, 0);
    assert!(!unit.board.shared.has_for(0));
    assert_eq!(unit.inject(0, 1), Err(Dropped::Off));
    // LPIs that are pending in the guest's table are pending when LPIs are on again.
    unit.board.write(PENDING + 1025, &[1]);
    unit.own(0, 0, 4, 1);
    assert!(unit.board.shared.has_for(0));
    let mut byte = [9];
    unit.board.read(PENDING + 1025, &mut byte);
    assert_eq!(byte, [0]);
    save_pending(&unit.board, 0).unwrap();
    unit.board.read(PENDING + 1025, &mut byte);
    assert_eq!(byte, [1]);
}

#[test]
fn registers_are_what_linux_shows() {
    let mut unit = Unit::new();
    assert_eq!(unit.read(8), 0x1ef71);
    assert_eq!(unit.read(0x100), 0x1907_0000_0000_0600);
    assert_eq!(unit.read(0x108), 0x1c07_0000_0000_0600);
    // Not on without tables.
    unit.its
        .access(&unit.injector, &unit.board, &access(0, 4, Some(1)));
    assert_eq!(unit.read(0), 0, "no register of 64 bits");
    let word = |unit: &mut Unit, offset| {
        unit.its
            .access(&unit.injector, &unit.board, &access(offset, 4, None))
    };
    assert_eq!(word(&mut unit, 0), 1 << 31);
    assert_eq!(word(&mut unit, 4), 0x4b00_043b);
    assert_eq!(word(&mut unit, 0xffe8), 0x3b);
    unit.write(0x100, u64::MAX);
    assert_eq!(unit.read(0x100) >> 48 & 0x71f, 0x107);
    for (offset, result) in [
        (0, Ok(())),
        (4, Ok(())),
        (12, Err(Refused::Invalid)),
        (0x84, Err(Refused::Invalid)),
        (0x98, Err(Refused::Absent)),
        (0x138, Ok(())),
        (0x140, Err(Refused::Absent)),
        (0xffd4, Ok(())),
        (0x1_0040, Err(Refused::Absent)),
    ] {
        assert_eq!(Its::has(offset), result, "{offset:#x}");
    }
}

#[test]
fn work_on_many_interrupts_lets_others_run() {
    const COUNT: u32 = 5000;
    let mut unit = Unit::on();
    unit.run(mapd(3, 13, true));
    unit.run(mapc(1, 2, true));
    for event in 0..u64::from(COUNT) {
        unit.run(mapti(3, event, 8192 + event, 1));
    }
    // The most collections, the highest first.
    let all = |unit: &Unit| {
        for at in 0..0x2000 {
            let value = 1u64 << 63 | (at % 4) << 16 | (0x1fff - at);
            unit.board.write(COLLECTIONS + 8 * at, &value.to_le_bytes());
        }
    };
    let pauses = |unit: &mut Unit, least: u32, work: &dyn Fn(&mut Unit)| {
        unit.board.pauses.set(0);
        work(unit);
        let pauses = unit.board.pauses.get();
        assert!(pauses >= least, "{pauses}");
    };
    pauses(&mut unit, 1 + COUNT / 1024, &|unit| {
        unit.run(mapc(1, 3, true))
    });
    assert_eq!(unit.inject(3, 4999), Ok(Some(3)));
    pauses(&mut unit, COUNT, &|unit| {
        unit.its.save(&unit.injector, &unit.board).unwrap()
    });
    all(&unit);
    pauses(&mut unit, COUNT + 0x2000, &|unit| {
        unit.its.restore(&unit.injector, &unit.board).unwrap();
    });
    assert_eq!(unit.injector.index.len(), COUNT as usize);
    unit.board
        .write(COLLECTIONS + 8, &(1u64 << 63 | 0x1fff).to_le_bytes());
    assert_eq!(
        unit.its.restore(&unit.injector, &unit.board),
        Err(Unsaved::Invalid)
    );
}

#[test]
fn tables_go_into_memory_and_come_back() {
    let mut unit = Unit::on();
    for device in [3, 90] {
        unit.run(mapd(device, 8, true));
    }
    for collection in 0..4 {
        unit.run(mapc(collection, 3 - collection, true));
    }
    for (lpi, (device, event)) in (8192..).zip([(3, 0), (3, 2), (3, 255), (90, 17)]) {
        unit.run(mapti(device, event, lpi, lpi % 4));
    }
    let sorted = |unit: &Unit| {
        let mut all: Vec<_> = unit.injector.index.all().collect();
        all.sort_by_key(|known| (known.device, known.event));
        all
    };
    let before = sorted(&unit);
    unit.its.save(&unit.injector, &unit.board).unwrap();
    unit.its.restore(&unit.injector, &unit.board).unwrap();
    assert_eq!(sorted(&unit), before);
    assert_eq!(unit.inject(90, 17), Ok(Some(0)));
    let registers =
        [0x80, 0x100, 0x108, 0x90, 0x88].map(|offset| (offset, unit.read(offset as u32)));
    unit.its.reset(&unit.injector, &unit.board);
    assert_eq!((unit.injector.index.len(), unit.read(0x80)), (0, 0));
    for (offset, value) in registers {
        unit.its
            .set(&unit.injector, &unit.board, offset, value)
            .unwrap();
    }
    unit.its.restore(&unit.injector, &unit.board).unwrap();
    unit.its.set(&unit.injector, &unit.board, 0, 1).unwrap();
    assert_eq!(sorted(&unit), before);
    assert_eq!(unit.inject(3, 255), Ok(Some(1)));
}

/// A small generator.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn commands_do_what_a_model_does() {
    let (mut unit, mut state) = (Unit::on(), 88172645463325252);
    let mut devices = BTreeMap::<u64, u64>::new();
    let mut collections = BTreeMap::<u64, Option<u64>>::new();
    let mut events = BTreeMap::<(u64, u64), (u64, u64)>::new();
    for step in 0..20_000 {
        let mut pick = |most: u64| random(&mut state) % most;
        let (device, event, collection, cpu) = (pick(6), pick(10), pick(5), pick(5));
        // An LPI is one event's: the architecture leaves open what else it would be.
        let lpi = 8192 + device * 16 + event;
        match pick(6) {
            0 => {
                let (bits, valid) = (pick(4) + 1, pick(3) != 0);
                unit.run(mapd(device, bits, valid));
                events.retain(|(of, _), _| *of != device);
                devices.remove(&device);
                if valid {
                    devices.insert(device, bits);
                }
            }
            1 => {
                let valid = pick(4) != 0;
                unit.run(mapc(collection, cpu, valid));
                if !valid {
                    collections.remove(&collection);
                } else if cpu < CPUS.into() {
                    collections.insert(collection, Some(cpu));
                }
            }
            2 | 3 => {
                unit.run(mapti(device, event, lpi, collection));
                if let btree_map::Entry::Vacant(free) = events.entry((device, event)) {
                    collections.entry(collection).or_insert(None);
                    if devices.get(&device).is_some_and(|bits| event >> bits == 0) {
                        free.insert((lpi, collection));
                    }
                }
            }
            4 => {
                unit.run([device << 32 | 1, event, collection, 0]);
                if let Some((_, of)) = events.get_mut(&(device, event))
                    && let (Some(Some(_)), Some(Some(_))) =
                        (collections.get(of), collections.get(&collection))
                {
                    *of = collection;
                }
            }
            _ => {
                unit.run([device << 32 | 0xf, event, 0, 0]);
                if let Some((_, of)) = events.get(&(device, event))
                    && let Some(Some(_)) = collections.get(of)
                {
                    events.remove(&(device, event));
                }
            }
        }
        let (device, event) = (pick(6), pick(10));
        let expected = events
            .get(&(device, event))
            .and_then(|(_, of)| collections.get(of).copied().flatten())
            .map(|cpu| Some(cpu as u16))
            .ok_or(Dropped::Unknown);
        assert_eq!(
            unit.inject(device as u32, event as u32),
            expected,
            "step {step}"
        );
        assert_eq!(unit.injector.index.len(), events.len(), "step {step}");
    }
}

#[test]
fn a_damaged_queue_harms_nobody() {
    let mut state = 0x1234_5678_9abc_def1;
    for _ in 0..40 {
        let mut unit = Unit::on();
        for byte in unit.board.memory.borrow_mut().iter_mut() {
            *byte = random(&mut state) as u8;
        }
        for at in (0..0x1_0000).step_by(32) {
            let kind = random(&mut state) as u8 % 18;
            unit.board.write(at, &[kind]);
        }
        unit.write(0x88, 0xffe0);
        for _ in 0..2000 {
            let (offset, value) = (random(&mut state) as u32 % 0x2_0000, random(&mut state));
            let len = 1 << (random(&mut state) % 4);
            let offset = if value & 1 == 0 {
                offset % 0x150
            } else {
                offset
            };
            let write = (value & 2 == 0).then(|| value.rotate_left(17));
            unit.its
                .access(&unit.injector, &unit.board, &access(offset, len, write));
            _ = unit
                .its
                .set(&unit.injector, &unit.board, (offset % 0x150).into(), value);
            _ = unit.inject(
                random(&mut state) as u32 % 1024,
                random(&mut state) as u32 % 1024,
            );
        }
        _ = unit.its.save(&unit.injector, &unit.board);
        _ = unit.its.restore(&unit.injector, &unit.board);
    }
}

#[test]
fn an_index_is_a_map() {
    let (index, mut model, mut state) = (Index::new(7), BTreeMap::new(), 99u64);
    for _ in 0..200_000 {
        let word = random(&mut state);
        let (device, event) = ((word % 40) as u16 * 0x101, (word >> 8) as u16 % 64);
        if word >> 60 < 9 {
            let new = Translation {
                device,
                event,
                lpi: 8192 + (word >> 30) as u16 % 8192,
                collection: (word >> 40) as u16,
            };
            index.set(new).unwrap();
            model.insert((device, event), new);
        } else {
            assert_eq!(index.remove(device, event), model.remove(&(device, event)));
        }
        let (device, event) = ((word >> 20) as u16 % 40 * 0x101, (word >> 50) as u16 % 64);
        assert_eq!(
            index.get(device, event),
            model.get(&(device, event)).copied()
        );
        assert_eq!(index.len(), model.len());
    }
    index.retain(|known| known.device % 2 == 0);
    model.retain(|(device, _), _| device % 2 == 0);
    let all: BTreeMap<_, _> = index
        .all()
        .map(|known| ((known.device, known.event), known))
        .collect();
    assert_eq!(all, model);
}

#[test]
fn an_index_is_full_at_as_many_as_there_are_lpis() {
    let index = Index::new(u64::MAX);
    let at = |number: u32| Translation {
        device: (number >> 8) as u16,
        event: number as u16 & 0xff,
        lpi: 8192,
        collection: 0,
    };
    assert!((0..57344).all(|number| index.set(at(number)).is_ok()));
    assert!(index.set(at(57344)).is_err());
    assert!((0..57344).all(|number| index.get(at(number).device, at(number).event).is_some()));
}
