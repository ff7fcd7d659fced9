//! The resources of the process, and a table of them.

/// The store's connections for readers, which are opened on demand when that many reads happen at
/// once, then kept. A descriptor lost per session or turn would be thousands.
const STORE_READERS: u64 = 8;

/// The resources of the process at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    rss_kib: u64,
    threads: u64,
    descriptors: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        // The directory that is read here counts too, each time.
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        Usage { rss_kib: field("VmRSS:"), threads: field("Threads:"), descriptors }
    }
}

/// The resources of the process during a phase.
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) start: Usage,
    pub(crate) warm: Usage,
    pub(crate) end: Usage,
    pub(crate) seconds: f64,
}

impl Phase {
    /// Returns a line for each resource that grew after the warm-up.
    pub(crate) fn growth(&self, max_rss_kib: u64) -> Vec<String> {
        let (warm, end) = (self.warm, self.end);
        let all = [
            ("RSS in KiB", warm.rss_kib, end.rss_kib, max_rss_kib),
            ("threads", warm.threads, end.threads, 0),
            ("descriptors", warm.descriptors, end.descriptors, STORE_READERS),
        ];
        let grew = all.into_iter().filter(|(_, warm, end, max)| *end > warm + max);
        let line = |(what, warm, end, max)| {
            format!("{}: {what} grew from {warm} to {end}, by more than {max}", self.name)
        };
        grew.map(line).collect()
    }
}

/// Prints the values at the start, after the warm-up, and at the end.
pub(crate) fn print(phases: &[Phase]) {
    println!("| start, after a tenth, at the end | RSS in KiB | threads | descriptors | seconds |");
    println!("|---|---:|---:|---:|---:|");
    for Phase { name, start, warm, end, seconds } in phases {
        let cell =
            |value: fn(&Usage) -> u64| format!("{}, {}, {}", value(start), value(warm), value(end));
        let rss = cell(|usage| usage.rss_kib);
        let (threads, descriptors) = (cell(|usage| usage.threads), cell(|usage| usage.descriptors));
        println!("| {name} | {rss} | {threads} | {descriptors} | {seconds:.1} |");
    }
}
