//! What each file of a crate needs of the others: the names it uses and the methods it calls.

use std::collections::{BTreeSet, HashMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Pat, Token};

use super::code::{Code, Target, is_for_tests};
use super::types::{Scope, Ty, Types};

/// `from` uses something that is defined in one of `to`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: BTreeSet<usize>,
    pub(super) what: String,
}

/// Methods of the standard library and of our dependencies that a receiver of unknown type may
/// have.
const FOREIGN: &str = include_str!("foreign_methods.txt");

/// Methods that return what they are called on, or a view of it.
const SAME: [&str; 16] = [
    "as_deref",
    "as_deref_mut",
    "as_mut",
    "as_ref",
    "borrow",
    "borrow_mut",
    "by_ref",
    "clone",
    "cloned",
    "copied",
    "inspect_err",
    "lock",
    "map_err",
    "or_else",
    "take",
    "to_owned",
];

/// Methods that return what is inside.
const INSIDE: [&str; 6] =
    ["expect", "ok_or", "unwrap", "unwrap_or", "unwrap_or_default", "unwrap_or_else"];

/// Methods of collections that may return an element.
const ELEMENT: [&str; 12] = [
    "back",
    "back_mut",
    "first",
    "front",
    "front_mut",
    "get",
    "get_mut",
    "last",
    "last_mut",
    "pop",
    "pop_front",
    "remove",
];

/// Everything that the files of a crate need of each other. `foreign` names methods that other
/// crates of ours define.
pub(super) fn edges(code: &Code, foreign: &HashSet<String>) -> BTreeSet<Edge> {
    let types = Types::of(code);
    let mut found = Finder {
        code,
        types: &types,
        foreign,
        module: 0,
        scope: Scope::default(),
        locals: HashMap::new(),
        edges: BTreeSet::new(),
    };
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
    types: &'a Types,
    foreign: &'a HashSet<String>,
    module: usize,
    scope: Scope,
    locals: HashMap<String, Option<Ty>>,
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
        let Some(Target::Item(module, name, rest)) = self.code.resolve(self.module, path) else {
            return;
        };
        self.edge([self.code.modules[module].file], name.clone());
        if let [method] = rest.as_slice() {
            let key = super::types::key(self.code, module, &name);
            if let Some(found) = self.types.methods.get(&(key, method.clone())) {
                self.edge([found.file], format!("{name}::{method}"));
            }
        }
    }

    fn function(
        &mut self,
        generics: &syn::Generics,
        signature: &syn::Signature,
        body: &syn::Block,
    ) {
        let scope = self.scope.clone();
        let locals = std::mem::take(&mut self.locals);
        self.types.generics(self.code, self.module, generics, &mut self.scope);
        let parameters = self.types.parameters(self.code, self.module, &self.scope, signature);
        for (pattern, ty) in parameters {
            self.bind(&pattern, ty);
        }
        self.visit_signature(signature);
        self.visit_block(body);
        self.scope = scope;
        self.locals = locals;
    }

    /// Notes the types of the names in a pattern.
    fn bind(&mut self, pattern: &Pat, ty: Option<Ty>) {
        match pattern {
            Pat::Ident(name) => {
                self.locals.insert(name.ident.to_string(), ty);
            }
            Pat::Reference(inner) => self.bind(&inner.pat, ty),
            Pat::Paren(inner) => self.bind(&inner.pat, ty),
            Pat::Type(inner) => {
                let ty = self.types.ty(self.code, self.module, &self.scope, &inner.ty);
                self.bind(&inner.pat, ty);
            }
            Pat::TupleStruct(inner) => {
                let name = inner.path.segments.last().map(|s| s.ident.to_string());
                let peel = matches!(name.as_deref(), Some("Some" | "Ok"));
                for element in &inner.elems {
                    self.bind(element, ty.clone().filter(|_| peel).and_then(Ty::peeled));
                }
            }
            Pat::Struct(inner) => {
                let own = self.types.path(self.code, self.module, &self.scope, &inner.path);
                for field in &inner.fields {
                    let syn::Member::Named(name) = &field.member else { continue };
                    let key = own.as_ref().map(|own| (own.key.clone(), name.to_string()));
                    let ty = key.and_then(|key| self.types.fields.get(&key).cloned());
                    self.bind(&field.pat, ty);
                }
            }
            Pat::Tuple(inner) => inner.elems.iter().for_each(|p| self.bind(p, None)),
            Pat::Slice(inner) => inner.elems.iter().for_each(|p| self.bind(p, None)),
            Pat::Or(inner) => inner.cases.iter().for_each(|p| self.bind(p, ty.clone())),
            _ => {}
        }
    }

    /// The type of an expression, as far as it can be seen.
    fn type_of(&self, expr: &Expr) -> Option<Ty> {
        match expr {
            Expr::Path(path) if path.path.is_ident("self") => self.scope.own.clone(),
            Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                self.locals.get(&name).cloned().flatten()
            }
            Expr::Reference(inner) => self.type_of(&inner.expr),
            Expr::Paren(inner) => self.type_of(&inner.expr),
            Expr::Unary(inner) => self.type_of(&inner.expr),
            Expr::Try(inner) => self.type_of(&inner.expr)?.peeled(),
            Expr::Await(inner) => match self.type_of(&inner.base)? {
                future if future.key == "BoxFuture" => future.peeled(),
                ty => Some(ty),
            },
            Expr::Index(inner) => self.type_of(&inner.expr)?.args.pop().filter(Ty::is_known),
            Expr::Field(field) => {
                let base = self.type_of(&field.base)?;
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                self.types.fields.get(&(base.key, name)).cloned()
            }
            Expr::Struct(item) => self.types.path(self.code, self.module, &self.scope, &item.path),
            Expr::Call(call) => self.type_of_call(call),
            Expr::MethodCall(call) => {
                let base = self.type_of(&call.receiver)?;
                let name = call.method.to_string();
                if base.ours
                    && let Some(method) = self.types.find(&base, &name)
                {
                    return method.output.clone();
                }
                match name.as_str() {
                    name if SAME.contains(&name) => Some(base),
                    name if INSIDE.contains(&name) && !base.ours => base.peeled(),
                    name if ELEMENT.contains(&name) && !base.ours => {
                        let element = base.args.last().filter(|ty| ty.is_known())?.clone();
                        Some(Ty { key: "Option".to_owned(), ours: false, args: vec![element] })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn type_of_call(&self, call: &syn::ExprCall) -> Option<Ty> {
        let Expr::Path(path) = &*call.func else { return None };
        let names: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [wrapper] = names.as_slice()
            && matches!(wrapper.as_str(), "Some" | "Ok")
        {
            let inside = self.type_of(call.args.first()?)?;
            return Some(Ty { key: "Option".to_owned(), ours: false, args: vec![inside] });
        }
        if let [own, method] = names.as_slice()
            && own == "Self"
        {
            let found = self.types.find(self.scope.own.as_ref()?, method)?;
            return found.output.clone();
        }
        match self.code.resolve(self.module, &names)? {
            Target::Item(module, name, rest) => {
                let key = super::types::key(self.code, module, &name);
                match rest.as_slice() {
                    [] => match self.types.functions.get(&(module, name)) {
                        Some(output) => Some(output.clone()),
                        // A tuple struct.
                        None => self.types.path(self.code, self.module, &self.scope, &path.path),
                    },
                    [method] => self.types.methods.get(&(key, method.clone()))?.output.clone(),
                    _ => None,
                }
            }
            Target::Module(_) => None,
        }
    }

    fn call(&mut self, receiver: &Expr, name: &str) {
        match self.type_of(receiver) {
            Some(ty) if ty.ours => {
                let file = self.types.find(&ty, name).map(|method| method.file);
                self.edge(file, format!(".{name}()"));
            }
            Some(_) => {}
            None => self.unknown(name),
        }
    }

    /// A call on a receiver whose type is not seen: the name says whose method it is.
    fn unknown(&mut self, name: &str) {
        if !self.foreign.contains(name) && !FOREIGN.lines().any(|foreign| foreign == name) {
            self.edge(self.types.owners(name), format!(".{name}()"));
        }
    }

    /// Visits the input of a macro: expressions where it is a list of them, tokens otherwise.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let ident = |at: usize| match trees.get(at) {
            Some(TokenTree::Ident(name)) => Some(name.to_string()),
            _ => None,
        };
        let punct = |at: usize, sign: char| match trees.get(at) {
            Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
            _ => false,
        };
        let mut at = 0;
        while at < trees.len() {
            if let TokenTree::Group(group) = &trees[at] {
                self.macro_input(group.stream());
            }
            let Some(first) = ident(at) else {
                at += 1;
                continue;
            };
            let called = matches!(trees.get(at + 1), Some(TokenTree::Group(_)));
            if at > 0 && punct(at - 1, '.') && called {
                match (at > 1).then(|| ident(at - 2)).flatten().as_deref() {
                    Some("self") if self.scope.own.is_some() => {
                        let own = self.scope.own.clone();
                        let file = own.and_then(|own| Some(self.types.find(&own, &first)?.file));
                        self.edge(file, format!(".{first}()"));
                    }
                    _ => self.unknown(&first),
                }
            }
            let mut path = vec![first];
            while punct(at + 1, ':') && punct(at + 2, ':') {
                let Some(next) = ident(at + 3) else { break };
                path.push(next);
                at += 3;
            }
            if path.len() > 1 || path[0].starts_with(|c: char| c.is_uppercase()) {
                self.name(&path);
            }
            at += 1;
        }
    }

    fn macro_input(&mut self, tokens: TokenStream) {
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        match syn::parse::Parser::parse2(list, tokens.clone()) {
            Ok(list) => list.iter().for_each(|expr| self.visit_expr(expr)),
            Err(_) => self.tokens(tokens),
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(super::code::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.generics, &item.sig, &item.block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outside = std::mem::take(&mut self.scope);
        self.scope = self.types.scope(self.code, self.module, item);
        visit::visit_item_impl(self, item);
        self.scope = outside;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig.generics, &item.sig, &item.block);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let outside = std::mem::take(&mut self.scope);
        let key = super::types::key(self.code, self.module, &item.ident.to_string());
        self.scope.own = Some(Ty { key, ours: true, args: Vec::new() });
        visit::visit_item_trait(self, item);
        self.scope = outside;
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(body) => self.function(&item.sig.generics, &item.sig, body),
            None => self.visit_signature(&item.sig),
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let ty = local.init.as_ref().and_then(|init| self.type_of(&init.expr));
        self.bind(&local.pat, ty);
    }

    fn visit_expr_let(&mut self, expr: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, expr);
        let ty = self.type_of(&expr.expr);
        self.bind(&expr.pat, ty);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        self.visit_expr(&expr.expr);
        let ty = self.type_of(&expr.expr);
        for arm in &expr.arms {
            self.bind(&arm.pat, ty.clone());
            self.visit_arm(arm);
        }
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast syn::ExprForLoop) {
        self.visit_expr(&expr.expr);
        let element = self.type_of(&expr.expr).and_then(|mut ty| ty.args.pop());
        self.bind(&expr.pat, element.filter(Ty::is_known));
        self.visit_block(&expr.body);
    }

    fn visit_expr_closure(&mut self, expr: &'ast syn::ExprClosure) {
        expr.inputs.iter().for_each(|pattern| self.bind(pattern, None));
        visit::visit_expr_closure(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        self.call(&call.receiver, &call.method.to_string());
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(name) = path.path.get_ident()
            && !self.locals.contains_key(&name.to_string())
        {
            self.name(&[name.to_string()]);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        match names.as_slice() {
            [own, method] if own == "Self" => {
                let own = self.scope.own.clone();
                let file = own.and_then(|own| Some(self.types.find(&own, method)?.file));
                self.edge(file, format!("Self::{method}"));
            }
            [name] if !name.starts_with(|c: char| c.is_uppercase()) => {}
            names => self.name(names),
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.visit_path(&mac.path);
        self.macro_input(mac.tokens.clone());
    }
}
