//! PID 1 of a guest, on Stile and on the Linux kernels it is compared with.
//!
//! It mounts the file systems that programs expect, opens the channel to the host command, runs the
//! jobs named in the initramfs one after another, carries their input and output as frames of crate
//! `wire`, and powers the machine off.

mod channel;
mod image;
mod job;
mod mark;
mod mounts;
mod network;
mod program;
mod root;
mod shares;
mod sys;
mod user;

use std::fs;
use std::io;
use std::process::Command;

use channel::Channel;

/// The file that names the device of the channel.
const CHANNEL_PATH: &str = "/stile/channel";

fn main() {
    mounts::mount_all();
    load_modules();
    network::set_up();
    if let Err(error) = run_jobs() {
        eprintln!("init: {error}");
    }
    sys::power_off();
}

/// Loads the modules that a stock kernel needs for the machine's devices, in the order of their
/// names.
fn load_modules() {
    let Ok(folder) = fs::read_dir("/stile/modules") else {
        return;
    };
    let mut modules: Vec<_> = folder.flatten().map(|module| module.path()).collect();
    modules.sort();
    for module in modules {
        match Command::new("/bin/insmod").arg(&module).status() {
            Ok(status) if status.success() => {}
            failed => eprintln!("init: {}: {failed:?}", module.display()),
        }
    }
}

fn run_jobs() -> io::Result<()> {
    let text = fs::read(wire::JOBS_PATH)?;
    let jobs = wire::job::decode(&text)
        .map_err(|line| io::Error::other(format!("{}: {line}", wire::JOBS_PATH)))?;
    let device = fs::read_to_string(CHANNEL_PATH)?;
    let shares = shares::read();
    let on_disk = root::switch()?;
    let image = image::switch()?;
    shares::mount_all(&shares)?;
    let mut channel = Channel::open(device.trim())?;
    let children = sys::child_signals()?;
    for (index, job) in jobs.iter().enumerate() {
        channel.control(wire::Control::Started(index as u16));
        job::run(job, index + 1, &mut channel, &children)?;
        sys::kill_all();
    }
    if on_disk && let Err(error) = root::leave() {
        eprintln!("init: the root: {error}");
    }
    if let Some(image) = image
        && let Err(error) = image.leave()
    {
        eprintln!("init: the image: {error}");
    }
    channel.flush()
}
