//! A crate as a tree of modules: which file defines a name, and what a path leads to.

use std::collections::{HashMap, HashSet};

use syn::visit::Visit;
use syn::{Attribute, Item, UseTree};

/// Reads the file of that path below `src`, if there is one.
pub(super) type Reader<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One module: a file's, or one written inside a file.
pub(super) struct Module {
    pub(super) file: usize,
    pub(super) path: String,
    pub(super) public: bool,
    parent: usize,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// The modules of a crate, without those that are compiled for its tests only.
pub(super) struct Code {
    /// Paths below `src`.
    pub(super) files: Vec<String>,
    pub(super) modules: Vec<Module>,
    /// The items of each module, in the order of `modules`.
    pub(super) items: Vec<Vec<Item>>,
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    Module(usize),
    /// A name defined in a module, and what follows it in the path.
    Item(usize, String, Vec<String>),
}

impl Code {
    /// Reads the crate whose root file is `root`, following its `mod` declarations.
    pub(super) fn read(root: &str, reader: Reader) -> Code {
        let mut code = Code { files: Vec::new(), modules: Vec::new(), items: Vec::new() };
        let text = reader(root).unwrap_or_else(|| panic!("no {root}"));
        code.file(root, "", &text, "crate", 0, reader);
        code
    }

    fn file(
        &mut self,
        path: &str,
        folder: &str,
        text: &str,
        name: &str,
        parent: usize,
        reader: Reader,
    ) -> usize {
        let parsed = syn::parse_file(text).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.files.push(path.to_owned());
        let file = self.files.len() - 1;
        self.module(file, folder, name, parent, parsed.items, reader)
    }

    fn module(
        &mut self,
        file: usize,
        folder: &str,
        path: &str,
        parent: usize,
        items: Vec<Item>,
        reader: Reader,
    ) -> usize {
        let own = self.modules.len();
        let mut uses = Uses::default();
        items
            .iter()
            .filter(|item| !is_for_tests(attributes(item)))
            .for_each(|i| uses.visit_item(i));
        self.modules.push(Module {
            file,
            path: path.to_owned(),
            public: false,
            parent,
            children: HashMap::new(),
            items: items.iter().filter_map(defined).collect(),
            imports: uses.imports,
            globs: uses.globs,
        });
        self.items.push(Vec::new());
        let mut kept = Vec::new();
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            let Item::Mod(module) = item else {
                kept.push(item);
                continue;
            };
            let name = module.ident.to_string();
            let inner = format!("{path}::{name}");
            let below = format!("{folder}{name}/");
            let child = match module.content {
                Some((_, items)) => Some(self.module(file, &below, &inner, own, items, reader)),
                None => {
                    let at = format!("{folder}{name}.rs");
                    reader(&at).map(|text| self.file(&at, &below, &text, &inner, own, reader))
                }
            };
            if let Some(child) = child {
                self.modules[child].public = matches!(module.vis, syn::Visibility::Public(_));
                self.modules[own].children.insert(name, child);
            }
        }
        self.items[own] = kept;
        own
    }

    /// The target of a path in `module`; `None` if that is not in this crate.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        self.resolve_within(module, path, 0)
    }

    fn resolve_within(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        if depth > 20 {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(module)) };
        let here = &self.modules[module];
        match first.as_str() {
            "crate" | "$crate" => return self.resolve_within(0, rest, depth + 1),
            "super" => return self.resolve_within(here.parent, rest, depth + 1),
            "self" => return self.resolve_within(module, rest, depth + 1),
            _ => {}
        }
        if let Some(child) = here.children.get(first) {
            return self.resolve_within(*child, rest, depth + 1);
        }
        if here.items.contains(first) {
            return Some(Target::Item(module, first.clone(), rest.to_vec()));
        }
        let onward = |target: Target| match target {
            Target::Module(found) => self.resolve_within(found, rest, depth + 1),
            Target::Item(found, name, mut after) => {
                after.extend(rest.iter().cloned());
                Some(Target::Item(found, name, after))
            }
        };
        if let Some(import) = here.imports.get(first) {
            return self.resolve_within(module, import, depth + 1).and_then(onward);
        }
        here.globs.iter().find_map(|glob| {
            let Target::Module(found) = self.resolve_within(module, glob, depth + 1)? else {
                return None;
            };
            if found == module {
                return None;
            }
            self.resolve_within(found, path, depth + 1)
        })
    }

    /// Returns whether `module` is inside of `outer`, or is `outer`.
    pub(super) fn is_around(&self, outer: usize, module: usize) -> bool {
        let path = &self.modules[module].path;
        path.strip_prefix(&self.modules[outer].path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    /// The paths that a module imports for its own use, not to export them again.
    pub(super) fn imports(&self, module: usize) -> Vec<Vec<String>> {
        let mut uses = Uses { select: Select::Imports, ..Uses::default() };
        self.items[module].iter().for_each(|item| uses.visit_item(item));
        uses.imports.into_values().collect()
    }

    /// The public names of a module, with the module of this crate that defines each.
    pub(super) fn exports(&self, module: usize) -> Vec<(String, usize)> {
        let mut uses = Uses { select: Select::Exports, ..Uses::default() };
        self.items[module].iter().for_each(|item| uses.visit_item(item));
        let own = self.items[module].iter().filter(|item| is_public(item)).filter_map(defined);
        let exported = uses.imports.into_iter().filter_map(|(name, path)| {
            match self.resolve(module, &path)? {
                Target::Item(found, _, _) => Some((name, found)),
                Target::Module(_) => None,
            }
        });
        own.map(|name| (name, module)).chain(exported).collect()
    }
}

/// Returns whether an item is compiled for tests only.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let inner = attribute.parse_args::<syn::Path>();
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && inner.is_ok_and(|path| path.is_ident("test"))
    })
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &Item) -> Option<String> {
    match item {
        Item::Const(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        Item::Macro(item) => item.ident.as_ref().map(ToString::to_string),
        Item::Static(item) => Some(item.ident.to_string()),
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        Item::Union(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Union(item) => &item.vis,
        _ => return false,
    };
    matches!(visibility, syn::Visibility::Public(_))
}

/// The `use` declarations that [`Uses`] collects.
#[derive(Default)]
enum Select {
    #[default]
    All,
    Imports,
    Exports,
}

/// Collects `use` declarations, including declarations inside functions.
#[derive(Default)]
struct Uses {
    select: Select,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Uses {
    fn tree(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| {
            let mut path = prefix.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(prefix, tree)),
            UseTree::Glob(_) => self.globs.push(prefix.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    self.imports.insert(last.clone(), prefix.to_vec());
                }
            }
            UseTree::Name(name) => {
                self.imports.insert(name.ident.to_string(), with(&name.ident));
            }
            UseTree::Rename(rename) => {
                self.imports.insert(rename.rename.to_string(), with(&rename.ident));
            }
        }
    }
}

impl Visit<'_> for Uses {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let selected = match self.select {
            Select::All => true,
            Select::Imports => matches!(item.vis, syn::Visibility::Inherited),
            Select::Exports => matches!(item.vis, syn::Visibility::Public(_)),
        };
        if selected {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}
}
