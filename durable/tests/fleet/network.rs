//! A network for each worker, which can be cut in one direction.

use std::process::Command;

/// All networks.
pub(crate) const NETWORK: &str = "10.213.0.0/16";
/// A hardware address that no network card has.
const NOBODY: &str = "02:00:00:00:00:99";

/// The network between a worker and this machine. It is removed on drop.
pub(crate) struct Network {
    /// The name of the namespace of the worker.
    pub(crate) name: String,
    number: usize,
    /// The addresses of the network cards: of this machine, and of the worker.
    cards: [String; 2],
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn ip(args: &[&str]) {
    let status = Command::new("ip").args(args).status();
    assert!(status.expect("iproute2 is installed").success(), "ip {args:?}: this needs root");
}

impl Network {
    pub(crate) fn new(number: usize) -> Self {
        let name = format!("loopwright-{}-{number}", std::process::id());
        let (here, there) = (format!("lw{number}a"), format!("lw{number}b"));
        ip(&["netns", "add", &name]);
        ip(&["link", "add", &here, "type", "veth", "peer", "name", &there]);
        ip(&["link", "set", &there, "netns", &name]);
        let mut network = Network { name, number, cards: Default::default() };
        ip(&["addr", "add", &format!("{}/24", network.here()), "dev", &here]);
        ip(&["link", "set", &here, "up"]);
        network.inside(&["addr", "add", &format!("{}/24", network.there()), "dev", &there]);
        network.inside(&["link", "set", &there, "up"]);
        network.inside(&["link", "set", "lo", "up"]);
        network.inside(&["route", "add", "default", "via", &network.here()]);
        let card = |command: &mut Command| {
            let shown = command.args(["-json", "link", "show"]).output().unwrap();
            let all: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
            let is_it = |it: &&serde_json::Value| {
                it["ifname"] == *here.as_str() || it["ifname"] == *there.as_str()
            };
            let card = all.as_array().unwrap().iter().find(is_it).unwrap();
            card["address"].as_str().unwrap().to_owned()
        };
        let mut inside = Command::new("ip");
        inside.args(["-n", &network.name]);
        network.cards = [card(&mut Command::new("ip")), card(&mut inside)];
        network
    }

    /// Returns the address of this machine.
    pub(crate) fn here(&self) -> String {
        format!("10.213.{}.1", self.number)
    }

    /// Returns the address of the worker.
    pub(crate) fn there(&self) -> String {
        format!("10.213.{}.2", self.number)
    }

    fn inside(&self, args: &[&str]) {
        ip(&[&["-n", &self.name], args].concat());
    }

    /// Sends packets in one direction to no receiver, or to their proper one.
    pub(crate) fn cut(&self, to_worker: bool, is_cut: bool) {
        let card = match (is_cut, to_worker) {
            (true, _) => NOBODY,
            (false, true) => &self.cards[1],
            (false, false) => &self.cards[0],
        };
        let number = self.number;
        match to_worker {
            true => ip(&neighbour(&self.there(), card, &format!("lw{number}a"))),
            false => self.inside(&neighbour(&self.here(), card, &format!("lw{number}b"))),
        }
    }
}

fn neighbour<'a>(address: &'a str, card: &'a str, device: &'a str) -> [&'a str; 9] {
    ["neigh", "replace", address, "lladdr", card, "dev", device, "nud", "permanent"]
}
