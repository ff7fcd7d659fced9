//! The directions of imports and calls: downwards between layers, never in a circle.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use super::ROOT;
use super::code::Code;
use super::edges::{Edge, edges, methods};

/// The layers of the core, highest first; everything else at the root of `src/` is a plain value.
const LAYERS: [&str; 10] = [
    "testing",
    "agent",
    "pattern",
    "session",
    "log",
    "hooks",
    "event",
    "compaction",
    "model",
    "tool",
];

/// The crates by folder and root file; the core is checked within these folders only.
const CRATES: [(&str, &str); 14] = [
    ("src", "lib.rs"),
    ("facade/src", "lib.rs"),
    ("patterns/src", "lib.rs"),
    ("memory/src", "lib.rs"),
    ("durable/src", "lib.rs"),
    ("protocols/src", "lib.rs"),
    ("mcp/src", "lib.rs"),
    ("otel/src", "lib.rs"),
    ("code/src", "lib.rs"),
    ("providers/src", "lib.rs"),
    ("tools/src", "lib.rs"),
    ("host/src", "lib.rs"),
    ("server/src", "lib.rs"),
    ("app/src", "lib.rs"),
];

pub(super) fn read_crate(folder: &str, root: &str) -> Code {
    let folder = Path::new(ROOT).join(folder);
    Code::read(root, &|path| fs::read_to_string(folder.join(path)).ok())
}

/// The layer of a file of the core: 0 is the highest, the plain values have the lowest.
fn layer(file: &str) -> usize {
    let name = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    LAYERS.iter().position(|known| *known == name).unwrap_or(LAYERS.len())
}

/// Lists what uses something that only higher layers define, as `file: what, in file`.
fn upwards(code: &Code, foreign: &HashSet<String>) -> Vec<String> {
    let file = |index: usize| code.files[index].as_str();
    let up = |edge: &Edge| {
        file(edge.from) != "lib.rs"
            && edge.to.iter().all(|to| layer(file(*to)) < layer(file(edge.from)))
    };
    let found = edges(code, foreign);
    let found = found.iter().filter(|edge| up(edge)).map(|edge| {
        let to: Vec<_> = edge.to.iter().map(|to| file(*to)).collect();
        format!("{}: {}, in {}", file(edge.from), edge.what, to.join(" or "))
    });
    found.collect()
}

/// Lists the uses between files that need each other in a circle, as `file -> file: what`.
fn cycles(code: &Code, foreign: &HashSet<String>) -> Vec<String> {
    let one = |Edge { from, to, what }| match to.iter().collect::<Vec<_>>()[..] {
        [to] => Some((from, *to, what)),
        _ => None,
    };
    let mut uses: Vec<_> = edges(code, foreign).into_iter().filter_map(one).collect();
    loop {
        // A file of a circle uses others and is used. Other files go, one layer after another.
        let before = uses.len();
        let users: BTreeSet<usize> = uses.iter().map(|(from, ..)| *from).collect();
        let used: BTreeSet<usize> = uses.iter().map(|(_, to, _)| *to).collect();
        uses.retain(|(from, to, _)| used.contains(from) && users.contains(to));
        if uses.len() == before {
            break;
        }
    }
    let files = &code.files;
    let line = |(from, to, what): (usize, usize, String)| {
        format!("{} -> {}: {what}", files[from], files[to])
    };
    uses.into_iter().map(line).collect()
}

/// A file of the core uses only what its own layer and the layers below define: by import, by path
/// and by method call.
#[test]
fn the_core_uses_only_its_own_layer_and_the_layers_below() {
    let found = upwards(&read_crate("src", "lib.rs"), &HashSet::new());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The files of a crate can be read in an order in which each needs only those before it.
#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let crates = CRATES.map(|(folder, root)| (folder, read_crate(folder, root)));
    let methods: Vec<HashSet<String>> =
        crates.iter().map(|(_, code)| methods(code).into_keys().collect()).collect();
    let mut failed = String::new();
    for (index, (folder, code)) in crates.iter().enumerate() {
        let others = methods.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.flat_map(|(_, names)| names.iter().cloned()).collect();
        for cycle in cycles(code, &others) {
            failed += &format!("{folder}: {cycle}\n");
        }
    }
    assert!(failed.is_empty(), "files use each other in a circle:\n{failed}");
}

/// A made-up crate: the text of each file follows a line `=== path`.
pub(super) fn made_up(text: &str) -> Code {
    let files: BTreeMap<&str, &str> =
        text.split("=== ").skip(1).filter_map(|file| file.split_once('\n')).collect();
    Code::read("lib.rs", &|path| files.get(path).map(|text| (*text).to_owned()))
}

#[test]
fn an_import_from_a_higher_layer_is_found() {
    let code = made_up(
        "=== lib.rs\nmod log; mod session; pub mod event { pub use crate::session::Hub; }\n\
         === log.rs\nuse crate::event::Hub; fn log(_: Hub) {}\n\
         === session.rs\nuse crate::log::log; pub struct Hub; fn x(hub: Hub) { log(hub) }\n",
    );
    assert_eq!(upwards(&code, &HashSet::new()), ["log.rs: Hub, in session.rs"]);
}

#[test]
fn a_call_of_a_method_that_a_higher_layer_defines_is_found() {
    let code = made_up(
        "=== lib.rs\nmod agent; mod session;\n\
         === session.rs\npub struct Session { pub n: u8 }\n\
         impl Session { fn ask(&mut self) { self.restart(); self.rest(); } fn rest(&self) {} }\n\
         pub fn free(x: &Session) { x.restart(); }\n\
         pub fn chained(list: Vec<Session>) { list.first().unwrap().restart(); }\n\
         pub fn seen_by_name() { let it = thing(); format!(\"{}\", it.restart()); }\n\
         === agent.rs\nuse crate::session::Session; impl Session { pub fn restart(&self) {} }\n",
    );
    assert_eq!(upwards(&code, &HashSet::new()), ["session.rs: .restart(), in agent.rs"]);
}

#[test]
fn a_method_that_the_file_defines_too_is_not_taken_for_another_of_its_name() {
    let code = made_up(
        "=== lib.rs\nmod agent; mod session;\n\
         === session.rs\nuse std::fs::File; pub struct Session { file: File, other: Other }\n\
         struct Other; impl Other { fn restart(&self) {} }\n\
         impl Session { fn ask(&self) { self.file.restart(); self.other.restart(); } }\n\
         === agent.rs\nuse crate::session::Session;\n\
         struct Agent; impl Agent { fn restart(&self) {} }\n",
    );
    assert_eq!(upwards(&code, &HashSet::new()), Vec::<String>::new());
}

#[test]
fn two_files_whose_methods_of_one_type_call_each_other_are_a_circle() {
    let code = made_up(
        "=== lib.rs\nmod agent;\n\
         === agent.rs\npub(crate) mod run; pub(crate) mod task;\n\
         === agent/task.rs\npub(crate) struct Task;\n\
         impl Task { pub(crate) fn rest(&self) { tokio::select! { x = self.start_run() => x } } }\n\
         === agent/run.rs\nuse super::task::Task;\n\
         impl Task { pub(crate) fn start_run(&self) { self.rest(); } }\n",
    );
    let found = cycles(&code, &HashSet::new());
    let wanted =
        ["agent/task.rs -> agent/run.rs: .start_run()", "agent/run.rs -> agent/task.rs: .rest()"];
    assert!(wanted.iter().all(|line| found.iter().any(|found| found == line)), "{found:?}");
}

#[test]
fn imports_form_a_circle_through_a_module_in_between_and_a_pure_export_does_not() {
    let circle = made_up(
        "=== lib.rs\nmod a; mod b; mod c;\n\
         === a.rs\nuse crate::b::B; pub struct A(B);\n\
         === b.rs\npub struct B { c: crate::c::C }\n\
         === c.rs\npub struct C; fn at() -> Option<super::a::A> { None }\n",
    );
    assert!(!cycles(&circle, &HashSet::new()).is_empty());
    let exporter = made_up(
        "=== lib.rs\nmod routes; mod streams;\n\
         === routes.rs\nmod id; mod a2a; pub(crate) use id::Id; fn router() { a2a::routes() }\n\
         === routes/id.rs\npub(crate) struct Id;\n\
         === routes/a2a.rs\nuse crate::streams::Stream; pub(super) fn routes() -> Stream {}\n\
         === streams.rs\nuse crate::routes::Id; pub(crate) struct Stream(Id);\n",
    );
    assert!(!cycles(&exporter, &HashSet::new()).is_empty());
    let tree = made_up(
        "=== lib.rs\nmod a; pub use a::b::B;\n\
         === a.rs\npub mod b; pub use b::B; pub struct A;\n\
         #[cfg(test)] mod tests { use super::b::B; }\n\
         === a/b.rs\nuse super::A; pub struct B(A);\n",
    );
    assert_eq!(cycles(&tree, &HashSet::new()), Vec::<String>::new());
}
