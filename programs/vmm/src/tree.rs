//! The device tree that describes the VM to a guest.

use anyhow::Result;
use vm_fdt::FdtWriter;

use crate::devices;
use crate::layout::{
    DEVICE_LEN, DISTRIBUTOR, DISTRIBUTOR_LEN, RAM, REDISTRIBUTOR_LEN, REDISTRIBUTORS, STATUS,
    TIMER_INTERRUPTS, UART, UART_INTERRUPT, VIRTIO, VIRTIO_INTERRUPT,
};
use crate::loader::Loaded;
use crate::options::Options;

/// Phandles of nodes that others refer to.
const INTERRUPT_CONTROLLER: u32 = 1;
const CLOCK: u32 = 2;

/// Interrupt specifiers: SPI or PPI, and level-sensitive, active high.
const SHARED: u32 = 0;
const PRIVATE: u32 = 1;
const LEVEL_HIGH: u32 = 4;

/// Builds the tree for a VM whose CPUs have these affinities (the affinity fields of MPIDR_EL1).
pub fn build(options: &Options, loaded: &Loaded, affinities: &[u64]) -> Result<Vec<u8>> {
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_string("compatible", "linux,dummy-virt")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_u32("interrupt-parent", INTERRUPT_CONTROLLER)?;
    chosen(&mut tree, options, loaded)?;
    let memory = tree.begin_node(&format!("memory@{RAM:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[RAM, options.memory])?;
    tree.end_node(memory)?;
    cpus(&mut tree, affinities)?;
    let psci = tree.begin_node("psci")?;
    tree.property_string_list(
        "compatible",
        vec!["arm,psci-1.0".into(), "arm,psci-0.2".into()],
    )?;
    tree.property_string("method", "hvc")?;
    tree.end_node(psci)?;
    interrupts(&mut tree, affinities.len() as u64)?;
    devices(&mut tree, devices::count(options))?;
    tree.end_node(root)?;
    Ok(tree.finish()?)
}

fn chosen(tree: &mut FdtWriter, options: &Options, loaded: &Loaded) -> Result<()> {
    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", &options.append)?;
    tree.property_string("stdout-path", &format!("/pl011@{UART:x}"))?;
    if loaded.initrd.1 != 0 {
        tree.property_u64("linux,initrd-start", loaded.initrd.0)?;
        tree.property_u64("linux,initrd-end", loaded.initrd.1)?;
    }
    tree.end_node(chosen)?;
    Ok(())
}

fn cpus(tree: &mut FdtWriter, affinities: &[u64]) -> Result<()> {
    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 0)?;
    for affinity in affinities {
        let cpu = tree.begin_node(&format!("cpu@{affinity:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_string("compatible", "arm,armv8")?;
        tree.property_string("enable-method", "psci")?;
        tree.property_u64("reg", *affinity)?;
        tree.end_node(cpu)?;
    }
    tree.end_node(cpus)?;
    Ok(())
}

fn interrupts(tree: &mut FdtWriter, vcpus: u64) -> Result<()> {
    let controller = tree.begin_node(&format!("intc@{DISTRIBUTOR:x}"))?;
    tree.property_string("compatible", "arm,gic-v3")?;
    tree.property_null("interrupt-controller")?;
    tree.property_u32("#interrupt-cells", 3)?;
    tree.property_phandle(INTERRUPT_CONTROLLER)?;
    let redistributors = [REDISTRIBUTORS, REDISTRIBUTOR_LEN * vcpus];
    tree.property_array_u64(
        "reg",
        &[
            DISTRIBUTOR,
            DISTRIBUTOR_LEN,
            redistributors[0],
            redistributors[1],
        ],
    )?;
    tree.end_node(controller)?;
    let timer = tree.begin_node("timer")?;
    tree.property_string("compatible", "arm,armv8-timer")?;
    let cells = TIMER_INTERRUPTS
        .map(|number| [PRIVATE, number, LEVEL_HIGH])
        .concat();
    tree.property_array_u32("interrupts", &cells)?;
    tree.property_null("always-on")?;
    tree.end_node(timer)?;
    Ok(())
}

fn devices(tree: &mut FdtWriter, virtio: usize) -> Result<()> {
    let clock = tree.begin_node("apb-pclk")?;
    tree.property_string("compatible", "fixed-clock")?;
    tree.property_u32("#clock-cells", 0)?;
    tree.property_u32("clock-frequency", 24_000_000)?;
    tree.property_phandle(CLOCK)?;
    tree.end_node(clock)?;
    let uart = tree.begin_node(&format!("pl011@{UART:x}"))?;
    tree.property_string_list(
        "compatible",
        vec!["arm,pl011".into(), "arm,primecell".into()],
    )?;
    tree.property_array_u64("reg", &[UART, DEVICE_LEN])?;
    tree.property_array_u32("interrupts", &[SHARED, UART_INTERRUPT, LEVEL_HIGH])?;
    tree.property_array_u32("clocks", &[CLOCK, CLOCK])?;
    tree.property_string_list("clock-names", vec!["uartclk".into(), "apb_pclk".into()])?;
    tree.end_node(uart)?;
    let status = tree.begin_node(&format!("status@{STATUS:x}"))?;
    tree.property_string("compatible", "stile,exit-status")?;
    tree.property_array_u64("reg", &[STATUS, DEVICE_LEN])?;
    tree.end_node(status)?;
    for at in 0..virtio as u32 {
        let address = VIRTIO + DEVICE_LEN * u64::from(at);
        let device = tree.begin_node(&format!("virtio_mmio@{address:x}"))?;
        tree.property_string("compatible", "virtio,mmio")?;
        tree.property_array_u64("reg", &[address, DEVICE_LEN])?;
        tree.property_array_u32("interrupts", &[SHARED, VIRTIO_INTERRUPT + at, LEVEL_HIGH])?;
        tree.property_null("dma-coherent")?;
        tree.end_node(device)?;
    }
    Ok(())
}
