//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::{Arg, Parser, ValueExt};

/// The maximum number of vCPUs, as in Linux.
const MAX_VCPUS: u32 = 512;

const USAGE: &str = "vmm [--vcpus N] [--memory SIZE] [--initrd FILE] [--append PARAMS] [--disk FILE]... \
     [--vsock PATH] [--log] [--stats] [--pin] [--sparse] [--no-reboot] KERNEL";

/// A guest and its options.
#[derive(Debug)]
pub struct Options {
    /// The number of vCPUs, 1 to 512.
    pub vcpus: u32,
    /// Memory in bytes, a multiple of 2 MiB.
    pub memory: u64,
    /// A flat image whose entry point is its first byte, or a Linux Image.
    pub kernel: PathBuf,
    pub initrd: Option<PathBuf>,
    /// The kernel's command line.
    pub append: String,
    /// vCPU n runs only on the host's CPU n modulo the number of CPUs.
    pub pin: bool,
    /// MPIDR_EL1 of the vCPUs is scattered over all values that an SGI can target.
    pub sparse: bool,
    /// Files with the guest's disks.
    pub disks: Vec<PathBuf>,
    /// Streams that the guest opens to port P of the host lead to the Unix socket of this name
    /// followed by `_P`.
    pub vsock: Option<String>,
    /// The PL011 carries the guest's log, which goes to standard error.
    pub log: bool,
    /// The kernel's counts of exits are printed on standard error: at the end, and at each phase
    /// that the guest's console marks.
    pub stats: bool,
    /// A reset is a failure.
    pub no_reboot: bool,
}

/// Reads the command line.
pub fn parse() -> Result<Options> {
    let mut options = Options {
        vcpus: 1,
        memory: 128 << 20,
        kernel: PathBuf::new(),
        initrd: None,
        append: String::new(),
        pin: false,
        sparse: false,
        disks: Vec::new(),
        vsock: None,
        log: false,
        stats: false,
        no_reboot: false,
    };
    let mut parser = Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("vcpus") => options.vcpus = parser.value()?.parse()?,
            Arg::Long("memory") => options.memory = size(&parser.value()?.string()?)?,
            Arg::Long("initrd") => options.initrd = Some(parser.value()?.into()),
            Arg::Long("append") => options.append = parser.value()?.string()?,
            Arg::Long("disk") => options.disks.push(parser.value()?.into()),
            Arg::Long("vsock") => options.vsock = Some(parser.value()?.string()?),
            Arg::Long("log") => options.log = true,
            Arg::Long("stats") => options.stats = true,
            Arg::Long("pin") => options.pin = true,
            Arg::Long("sparse") => options.sparse = true,
            Arg::Long("no-reboot") => options.no_reboot = true,
            Arg::Value(kernel) if options.kernel.as_os_str().is_empty() => {
                options.kernel = kernel.into()
            }
            _ => bail!("{}; usage: {USAGE}", argument.unexpected()),
        }
    }
    if options.kernel.as_os_str().is_empty() {
        bail!("no kernel is named; usage: {USAGE}");
    }
    if !(1..=MAX_VCPUS).contains(&options.vcpus) {
        bail!("--vcpus {}: a machine has 1 to {MAX_VCPUS}", options.vcpus);
    }
    Ok(options)
}

/// A size in bytes, or with the suffix K, M or G.
fn size(text: &str) -> Result<u64> {
    let (number, unit) = match text.trim_end_matches(['K', 'M', 'G']) {
        number if number.len() + 1 >= text.len() => (number, &text[number.len()..]),
        _ => bail!("--memory {text}: one unit is enough"),
    };
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    let number: u64 = number.parse().with_context(|| format!("--memory {text}"))?;
    let bytes = number
        .checked_mul(1 << shift)
        .with_context(|| format!("--memory {text}: too much"))?;
    if bytes == 0 || bytes % (2 << 20) != 0 {
        bail!("--memory {text}: not a multiple of 2M");
    }
    Ok(bytes)
}
