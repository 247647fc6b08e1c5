//! Checks the content of list registers against a simulated guest: it takes the most urgent pending
//! interrupt, and ends it.

use vgic::{Interface, ListRegister, Private, Shared};

const PLACE: u16 = 3;

struct Cpu {
    private: Private,
    shared: Shared,
    interface: Interface,
}

impl Cpu {
    fn new(lists: usize) -> Self {
        let shared = Shared::new(96, Some(PLACE)).unwrap();
        shared.enable(true);
        Cpu {
            private: Private::new(),
            shared,
            interface: Interface::new(PLACE, lists),
        }
    }

    /// Leaves the guest and enters it again.
    fn pass(&mut self) {
        let nobody = |place| panic!("{place} was told");
        self.interface.fold(&self.private, &self.shared, nobody);
        self.private.request_refresh();
        self.interface.fill(&self.private, &self.shared, 1 << 27);
    }

    /// The numbers in the registers, in their order.
    fn listed(&self) -> Vec<u32> {
        let registers = self.interface.registers().iter();
        registers.map(|register| register.number()).collect()
    }

    fn register(&mut self, number: u32) -> &mut ListRegister {
        let mut registers = self.interface.registers_mut().iter_mut();
        registers
            .find(|register| register.number() == number)
            .unwrap()
    }

    /// The guest acknowledges one.
    fn take(&mut self, number: u32) {
        let register = self.register(number);
        assert!(register.is_pending());
        *register = ListRegister(register.0 & !(1 << 62)).active();
    }

    /// The guest ends one.
    fn end(&mut self, number: u32) {
        let register = self.register(number);
        assert!(register.is_active());
        *register = ListRegister(register.0 & !(1 << 63));
    }

    fn enable_shared(&self, number: u32, edge: bool) {
        let bank = self.shared.bank(number / 32).unwrap();
        bank.enabled
            .fetch_or(1 << (number % 32), std::sync::atomic::Ordering::SeqCst);
        if !edge {
            bank.edge
                .fetch_and(!(1 << (number % 32)), std::sync::atomic::Ordering::SeqCst);
        }
    }
}

#[test]
fn an_sgi_is_owed_once_however_often_it_is_sent() {
    let mut cpu = Cpu::new(4);
    assert!(cpu.private.send(5, true));
    assert!(!cpu.private.send(5, true));
    cpu.pass();
    assert_eq!(cpu.listed(), [5]);
    cpu.take(5);
    cpu.end(5);
    cpu.pass();
    assert!(cpu.listed().is_empty());
}

#[test]
fn an_sgi_sent_while_it_is_active_comes_again_after_its_end() {
    let mut cpu = Cpu::new(4);
    cpu.private.send(5, true);
    cpu.pass();
    cpu.take(5);
    assert!(cpu.private.send(5, true));
    cpu.pass();
    let register = *cpu.register(5);
    assert!(register.is_active() && register.is_pending());
    cpu.end(5);
    cpu.take(5);
    cpu.end(5);
    cpu.pass();
    assert!(cpu.listed().is_empty());
}

#[test]
fn an_sgi_that_is_held_back_stays_pending_and_tells_nobody() {
    let mut cpu = Cpu::new(4);
    let enabled = &cpu.private.bank.enabled;
    enabled.store(0, std::sync::atomic::Ordering::SeqCst);
    assert!(!cpu.private.send(5, true));
    cpu.pass();
    assert!(cpu.listed().is_empty());
    let enabled = &cpu.private.bank.enabled;
    enabled.store(1 << 5, std::sync::atomic::Ordering::SeqCst);
    assert_ne!(cpu.private.deliverable(), 0);
    cpu.pass();
    assert_eq!(cpu.listed(), [5]);
}

#[test]
fn a_register_of_group_0_raises_nothing_in_group_1() {
    let cpu = Cpu::new(4);
    assert!(!cpu.private.send(5, false));
    let group = &cpu.private.bank.group1;
    group.store(!(1 << 5), std::sync::atomic::Ordering::SeqCst);
    assert!(cpu.private.send(5, false));
}

#[test]
fn the_most_urgent_are_listed_where_there_is_no_room_for_all() {
    let mut cpu = Cpu::new(2);
    for (sgi, priority) in [(1, 0x80), (2, 0x40), (3, 0xc0), (4, 0x00)] {
        cpu.private
            .bank
            .set_priorities(sgi / 4, priority << (sgi % 4 * 8), 0xff << (sgi % 4 * 8));
        cpu.private.send(sgi as u8, true);
    }
    cpu.pass();
    assert_eq!(cpu.listed(), [4, 2]);
    assert!(cpu.interface.waits_for_room());
    cpu.take(4);
    cpu.end(4);
    cpu.take(2);
    cpu.pass();
    // Active interrupts stay, before all that are only pending.
    assert_eq!(cpu.listed(), [2, 1]);
    assert!(cpu.interface.waits_for_room());
    cpu.end(2);
    cpu.pass();
    assert_eq!(cpu.listed(), [1, 3]);
    assert!(!cpu.interface.waits_for_room());
}

#[test]
fn active_ones_without_a_register_are_ended_by_priority() {
    let mut cpu = Cpu::new(1);
    cpu.private.send(1, true);
    cpu.pass();
    cpu.take(1);
    cpu.private.bank.set_priorities(0, 0xf8 << 8, 0xff << 8);
    cpu.private
        .bank
        .active
        .fetch_or(1 << 2, std::sync::atomic::Ordering::SeqCst);
    cpu.pass();
    assert_eq!(cpu.listed(), [2]);
    assert!(cpu.interface.has_spilled());
    cpu.end(2);
    cpu.interface.fold(&cpu.private, &cpu.shared, |_| ());
    cpu.interface.ended_elsewhere(1, &cpu.private, &cpu.shared);
    cpu.interface.fill(&cpu.private, &cpu.shared, 0);
    assert!(cpu.listed().is_empty());
}

#[test]
fn a_level_is_pending_as_long_as_its_line_is_high() {
    let mut cpu = Cpu::new(4);
    cpu.enable_shared(40, false);
    let line = |cpu: &Cpu, high| cpu.shared.bank(1).unwrap().set_line(8, high);
    assert!(line(&cpu, true));
    assert!(!line(&cpu, true));
    cpu.pass();
    assert_eq!(cpu.listed(), [40]);
    // Its end is reported, so that the line is looked at again.
    assert_ne!(cpu.register(40).0 & 1 << 41, 0);
    cpu.take(40);
    cpu.pass();
    assert!(!cpu.register(40).is_pending());
    cpu.end(40);
    cpu.pass();
    assert_eq!(cpu.listed(), [40]);
    line(&cpu, false);
    cpu.pass();
    assert!(cpu.listed().is_empty());
}

#[test]
fn an_edge_is_pending_once() {
    let mut cpu = Cpu::new(4);
    cpu.enable_shared(40, true);
    let line = |cpu: &Cpu, high| cpu.shared.bank(1).unwrap().set_line(8, high);
    line(&cpu, true);
    cpu.pass();
    cpu.take(40);
    cpu.end(40);
    cpu.pass();
    assert!(cpu.listed().is_empty());
    line(&cpu, false);
    line(&cpu, true);
    cpu.pass();
    assert_eq!(cpu.listed(), [40]);
}

#[test]
fn a_timers_line_is_low_once_the_guest_took_its_interrupt() {
    let mut cpu = Cpu::new(4);
    cpu.private
        .bank
        .enabled
        .fetch_or(1 << 27, std::sync::atomic::Ordering::SeqCst);
    cpu.private.bank.set_line(27, true);
    cpu.pass();
    assert!(cpu.register(27).is_of_hardware());
    cpu.take(27);
    cpu.pass();
    assert!(cpu.register(27).is_active() && !cpu.register(27).is_pending());
    cpu.end(27);
    cpu.pass();
    assert!(cpu.listed().is_empty());
}

#[test]
fn a_shared_interrupt_is_in_one_list_at_a_time() {
    let mut cpu = Cpu::new(4);
    cpu.enable_shared(33, true);
    cpu.shared.bank(1).unwrap().set_line(1, true);
    cpu.pass();
    cpu.take(33);
    // It becomes pending again and goes elsewhere from now on, while it is active here.
    cpu.shared.bank(1).unwrap().set_line(1, false);
    cpu.shared.bank(1).unwrap().set_line(1, true);
    cpu.shared
        .set_route(33, affinity::Affinity::of_vcpu_id(7), Some(7));
    assert_eq!(cpu.shared.due(33), Some(PLACE));
    let (private, mut other) = (Private::new(), Interface::new(7, 4));
    other.fill(&private, &cpu.shared, 0);
    assert!(other.registers().is_empty());
    cpu.end(33);
    let mut told = None;
    cpu.interface
        .fold(&cpu.private, &cpu.shared, |place| told = Some(place));
    assert_eq!(told, Some(7));
    private.request_refresh();
    other.fill(&private, &cpu.shared, 0);
    assert_eq!(other.registers()[0].number(), 33);
}

#[test]
fn nothing_pending_is_listed_while_the_distributor_is_off() {
    let mut cpu = Cpu::new(4);
    cpu.shared.enable(false);
    cpu.private.send(1, true);
    cpu.pass();
    assert!(cpu.listed().is_empty());
    cpu.shared.enable(true);
    cpu.pass();
    assert_eq!(cpu.listed(), [1]);
}

#[test]
fn an_lpi_that_the_guest_took_stays_listed_until_its_end() {
    let mut cpu = Cpu::new(4);
    cpu.shared.add_lpis().unwrap();
    cpu.shared.add_lpi(8200, Some(PLACE)).unwrap();
    assert_eq!(cpu.shared.configure_lpi(8200, 1), None);
    assert_eq!(cpu.shared.raise_lpi(8200), Some(PLACE));
    cpu.pass();
    cpu.take(8200);
    // The guest leaves its handler for a moment, twice.
    cpu.pass();
    cpu.pass();
    assert!(cpu.register(8200).is_active());
    // The virtual CPU that has it in a register is notified of the next one, to see it at once.
    assert_eq!(cpu.shared.raise_lpi(8200), Some(PLACE));
    cpu.end(8200);
    cpu.pass();
    assert_eq!(cpu.listed(), [8200]);
    cpu.take(8200);
    cpu.end(8200);
    cpu.pass();
    assert_eq!(cpu.shared.raise_lpi(8200), Some(PLACE));
}
