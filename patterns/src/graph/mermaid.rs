//! The drawing of a graph.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Graph, Next};

impl<S> Graph<S> {
    /// Returns the graph as a flowchart of [Mermaid](https://mermaid.js.org), which GitHub and many
    /// editors draw.
    ///
    /// Checkpoints are rounded, and [branches](Graph::branches) have a double border with their
    /// terms. The way back to a checkpoint is dotted. An edge whose targets are not
    /// [declared](Graph::leads_to) is a dotted arrow to "chosen at run time".
    ///
    /// ```
    /// use loopwright_patterns::{Graph, Next, PiPattern};
    ///
    /// let graph = Graph::<u32>::new("write")
    ///     .checkpoint("write")
    ///     .pattern("write", PiPattern)
    ///     .leads_to("write", [Next::Back("write"), Next::End])
    ///     .edge("write", |_, tries| {
    ///         *tries += 1;
    ///         if *tries < 3 { Next::Back("write") } else { Next::End }
    ///     });
    /// let drawing = r#"flowchart TD
    ///     start((" ")) --> n0
    ///     n0(["write"])
    ///     n0 -.->|back| n0
    ///     n0 --> stop((("end")))
    /// "#;
    /// assert_eq!(graph.to_mermaid(), drawing);
    /// ```
    pub fn to_mermaid(&self) -> String {
        const STOP: &str = "stop(((\"end\")))";
        let targets = self.edges.values().flat_map(|edge| edge.targets.iter().flatten());
        let names = targets.filter_map(|next| match next {
            Next::To(node) | Next::Back(node) => Some(*node),
            Next::End => None,
        });
        let names: BTreeSet<&str> =
            self.nodes.keys().copied().chain(names).chain([self.start]).collect();
        let id =
            |name: &str| format!("n{}", names.iter().take_while(|other| **other < name).count());
        let mut out = format!("flowchart TD\n    start((\" \")) --> {}\n", id(self.start));
        for name in &names {
            let terms = self.nodes.get(name).and_then(|node| node.branches.as_ref());
            let (open, close) = match (terms, self.checkpoints.contains(name)) {
                (Some(_), _) => ("[[", "]]"),
                (None, true) => ("([", "])"),
                (None, false) => ("[", "]"),
            };
            let terms = terms.map(|outline| format!("<br/>{}", label(&outline.terms)));
            let text = label(name) + &terms.unwrap_or_default();
            let _ = writeln!(out, "    {}{open}\"{text}\"{close}", id(name));
        }
        for from in self.nodes.keys() {
            let edge = self.edges.get(from);
            let end = [Next::End];
            let targets = match edge.map(|edge| (edge.targets.as_deref(), &edge.choose)) {
                Some((Some(targets), _)) => targets,
                Some((None, Some(_))) => {
                    let _ = writeln!(out, "    {} -.-> any[\"chosen at run time\"]", id(from));
                    continue;
                }
                _ => &end,
            };
            for next in targets {
                let arrow = match next {
                    Next::To(node) => format!("--> {}", id(node)),
                    Next::Back(node) => format!("-.->|back| {}", id(node)),
                    Next::End => format!("--> {STOP}"),
                };
                let _ = writeln!(out, "    {} {arrow}", id(from));
            }
        }
        out
    }
}

/// Returns a text with entities for all characters that could have a meaning in Mermaid.
fn label(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            c if c.is_alphanumeric() || " -_,./".contains(c) => out.push(c),
            c => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
        out
    })
}
