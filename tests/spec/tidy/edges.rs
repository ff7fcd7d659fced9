//! What each file of a crate needs of the others: the names it uses and the methods it calls.
//!
//! Types are not inferred. A call on `self` is a call of the type of the `impl` block. Any other
//! call can be a call of each method of that name.

use std::collections::{BTreeSet, HashMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, ImplItem, Item, TraitItem};

use super::code::{Code, Target, attributes, is_for_tests};

/// `from` uses something that is defined in one of `to`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: BTreeSet<usize>,
    pub(super) what: String,
}

/// Methods of the standard library and of our dependencies. Only a call on `self` can be a call of
/// our method of that name.
const FOREIGN: &str = include_str!("foreign_methods.txt");

/// A method, with the path of its type or trait.
pub(super) struct Method {
    owner: String,
    file: usize,
    is_of_trait: bool,
}

/// Returns the methods of a crate by name. The methods of a trait are defined where the trait is.
pub(super) fn methods(code: &Code) -> HashMap<String, Vec<Method>> {
    let mut methods = HashMap::<String, Vec<Method>>::new();
    for (module, items) in code.items.iter().enumerate() {
        let file = code.modules[module].file;
        for item in items {
            let is_of_trait = matches!(item, Item::Trait(_));
            let names: Vec<_> = match item {
                Item::Trait(item) => item.items.iter().filter_map(of_trait).collect(),
                Item::Impl(item) if item.trait_.is_none() => {
                    item.items.iter().filter_map(of_type).collect()
                }
                _ => continue,
            };
            let Some(owner) = owner(code, module, item) else { continue };
            for name in names {
                let method = Method { owner: owner.clone(), file, is_of_trait };
                methods.entry(name.to_string()).or_default().push(method);
            }
        }
    }
    methods
}

fn of_trait(item: &TraitItem) -> Option<&syn::Ident> {
    let TraitItem::Fn(method) = item else { return None };
    Some(&method.sig.ident)
}

fn of_type(item: &ImplItem) -> Option<&syn::Ident> {
    let ImplItem::Fn(method) = item else { return None };
    Some(&method.sig.ident).filter(|_| !is_for_tests(&method.attrs))
}

/// Returns the path of the type or the trait that `self` is in an item.
fn owner(code: &Code, module: usize, item: &Item) -> Option<String> {
    let path = match item {
        Item::Trait(item) => vec![item.ident.to_string()],
        Item::Impl(item) => match &*item.self_ty {
            syn::Type::Path(ty) => names(&ty.path),
            _ => return None,
        },
        _ => return None,
    };
    match code.resolve(module, &path)? {
        Target::Item(module, name, _) => Some(path_of(code, module, &name)),
        Target::Module(_) => None,
    }
}

fn path_of(code: &Code, module: usize, name: &str) -> String {
    format!("{}::{name}", code.modules[module].path)
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Everything that the files of a crate need of each other. `foreign` names methods that other
/// crates of ours define.
pub(super) fn edges(code: &Code, foreign: &HashSet<String>) -> BTreeSet<Edge> {
    let methods = methods(code);
    let edges = BTreeSet::new();
    let mut found = Finder { code, methods: &methods, foreign, module: 0, own: None, edges };
    for (module, items) in code.items.iter().enumerate() {
        found.module = module;
        for path in code.imports(module) {
            found.name(&path);
        }
        items.iter().for_each(|item| found.visit_item(item));
    }
    found.edges
}

struct Finder<'a> {
    code: &'a Code,
    methods: &'a HashMap<String, Vec<Method>>,
    foreign: &'a HashSet<String>,
    module: usize,
    /// The path of the type or the trait of `self`.
    own: Option<String>,
    edges: BTreeSet<Edge>,
}

impl Finder<'_> {
    fn edge(&mut self, to: impl IntoIterator<Item = usize>, what: String) {
        let from = self.code.modules[self.module].file;
        let to: BTreeSet<usize> = to.into_iter().collect();
        if !to.is_empty() && !to.contains(&from) {
            self.edges.insert(Edge { from, to, what });
        }
    }

    fn name(&mut self, path: &[String]) {
        if let ([own, method], Some(of)) = (path, self.own.clone())
            && own == "Self"
        {
            return self.method(&of, method, format!("Self::{method}"));
        }
        let Some(Target::Item(module, name, rest)) = self.code.resolve(self.module, path) else {
            return;
        };
        self.edge([self.code.modules[module].file], name.clone());
        self.exporter(path, module, &name);
        if let [method] = rest.as_slice() {
            let of = path_of(self.code, module, &name);
            self.method(&of, method, format!("{name}::{method}"));
        }
    }

    /// Notes the module through which a name is taken, if another one defines it: whoever reads the
    /// path looks there first. Modules around the file itself do not count.
    fn exporter(&mut self, path: &[String], definition: usize, name: &str) {
        let Some((_, parent)) = path.split_last() else { return };
        let Some(Target::Module(through)) = self.code.resolve(self.module, parent) else { return };
        if through != definition && !self.code.is_around(through, self.module) {
            self.edge([self.code.modules[through].file], name.to_owned());
        }
    }

    /// Notes the use of a method of a type, which may have it from a trait.
    fn method(&mut self, of: &str, method: &str, what: String) {
        let Some(known) = self.methods.get(method) else { return };
        let own = known.iter().find(|method| method.owner == of);
        let found = own.or_else(|| known.iter().find(|method| method.is_of_trait));
        self.edge(found.map(|method| method.file), what);
    }

    /// Notes a call of a method, on `self` or on anything else.
    fn call(&mut self, on_self: bool, method: &str) {
        let what = format!(".{method}()");
        if let Some(own) = self.own.clone().filter(|_| on_self) {
            self.method(&own, method, what);
        } else if !self.foreign.contains(method) && !FOREIGN.lines().any(|line| line == method) {
            let known = self.methods.get(method).into_iter().flatten();
            self.edge(known.map(|method| method.file).collect::<Vec<_>>(), what);
        }
    }

    /// Finds paths and calls in the input of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let ident = |at: usize| match trees.get(at) {
            Some(TokenTree::Ident(name)) => Some(name.to_string()),
            _ => None,
        };
        let is_sign = |at: usize, sign: char| match trees.get(at) {
            Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
            _ => false,
        };
        let mut at = 0;
        while at < trees.len() {
            if let TokenTree::Group(group) = &trees[at] {
                self.tokens(group.stream());
            }
            if let Some(first) = ident(at) {
                let is_called = matches!(trees.get(at + 1), Some(TokenTree::Group(_)));
                if is_called && at > 0 && is_sign(at - 1, '.') {
                    let on_self = at > 1 && ident(at - 2).as_deref() == Some("self");
                    self.call(on_self, &first);
                }
                let mut path = vec![first];
                while is_sign(at + 1, ':') && is_sign(at + 2, ':') {
                    let Some(next) = ident(at + 3) else { break };
                    path.push(next);
                    at += 3;
                }
                if path.len() > 1 || path[0].starts_with(char::is_uppercase) {
                    self.name(&path);
                }
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        let outside = std::mem::replace(&mut self.own, owner(self.code, self.module, item));
        visit::visit_item(self, item);
        self.own = outside;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        let on_self = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
        self.call(on_self, &call.method.to_string());
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(name) = path.path.get_ident()
        {
            self.name(&[name.to_string()]);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = names(path);
        if names.len() > 1 || names[0].starts_with(char::is_uppercase) {
            self.name(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.visit_path(&mac.path);
        self.tokens(mac.tokens.clone());
    }
}
