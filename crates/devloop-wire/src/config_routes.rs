//! Routes of a configuration: the six places that need one, named ones beside them, and the rules among them.
//! It must not know how an adapter works.

use std::collections::BTreeMap;

use devloop_core::ids::{Identity, RouteKey};
use devloop_core::policy::Backend;
use devloop_core::tier::Tier;
use devloop_core::units::{MAX_NUMBER, Map, UsdMicros};

use crate::config_doc::{AgentBackend, RouteConfig, Weight};
use crate::config_fields::{Faults, Fields, nearest};
use crate::config_identity::{identity, vendor};
use crate::config_price;
use crate::tree::Node;

/// Everything about routes that stands in a configuration.
pub(crate) struct Routes {
    pub agent_backend: AgentBackend,
    pub routes: Map<RouteKey, RouteConfig>,
    pub planner: RouteKey,
    pub reviewer: RouteKey,
    pub routing: Map<Tier, RouteKey>,
    pub script: Option<String>,
}

const BACKENDS: &[(&str, Backend)] = &[
    ("noop", Backend::Noop),
    ("scripted", Backend::Scripted),
    ("command", Backend::Command),
    ("claude", Backend::Claude),
    ("codex", Backend::Codex),
    ("dsh", Backend::Dsh),
    ("subagent", Backend::Subagent),
    ("dsh_agent", Backend::DshAgent),
    ("acp", Backend::Acp),
];
const TIERS: &[(&str, Tier)] = &[("T0", Tier::T0), ("T1", Tier::T1), ("T2", Tier::T2), ("T3", Tier::T3)];
pub(crate) const ROUTE_KEYS: &[&str] =
    &["tier", "backend", "provider", "model", "fallback", "price", "reserveUsd", "maxTokens", "maxParallel"];

/// One of the six places that need a route.
#[derive(Clone, Copy)]
struct Slot {
    key: &'static str,
    path: &'static str,
    tier: Tier,
    /// Adapter and model with `routed`, and what `noop` shows.
    backend: Backend,
    model: &'static str,
    /// The model with `scripted`.
    role: &'static str,
}

const fn slot(
    key: &'static str,
    path: &'static str,
    tier: Tier,
    backend: Backend,
    model: &'static str,
    role: &'static str,
) -> Slot {
    Slot { key, path, tier, backend, model, role }
}

const SLOTS: [Slot; 6] = [
    slot("planner", "plannerRoute", Tier::T3, Backend::Codex, "gpt-5.4", "planner"),
    slot("reviewer", "reviewerRoute", Tier::T3, Backend::Claude, "opus", "reviewer"),
    slot("T0", "routing.T0", Tier::T0, Backend::Dsh, "deepseek-flash", "worker"),
    slot("T1", "routing.T1", Tier::T1, Backend::Dsh, "deepseek-flash", "worker"),
    slot("T2", "routing.T2", Tier::T2, Backend::Dsh, "deepseek-flash", "worker"),
    slot("T3", "routing.T3", Tier::T3, Backend::Codex, "gpt-5.4", "worker"),
];

/// What a route is where its object says nothing.
struct Preset {
    tier: Tier,
    backend: Backend,
    model: Option<String>,
    reserve: Option<UsdMicros>,
    /// Set when no other adapter is allowed.
    only: Option<Backend>,
}

/// Reads all keys that are about routes.
pub(crate) fn read(faults: &mut Faults, top: &Fields<'_>) -> Routes {
    let agent_backend = agent_backend(faults, top);
    let empty = Node::Map(Vec::new());
    let scripted =
        faults.fields(top.get("scripted").unwrap_or(&empty), "scripted", &["script", "reserveUsd"]);
    let script = faults.text(&scripted, "script");
    let script_reserve = faults.money(&scripted, "reserveUsd");
    let review_model = faults.text(top, "reviewModel");
    let routing = faults.fields(top.get("routing").unwrap_or(&empty), "routing", &["T0", "T1", "T2", "T3"]);
    let mut book = Book { usd_per_cny: config_price::usd_per_cny(faults, top), ..Book::default() };
    for slot in SLOTS {
        let node = match slot.path.strip_prefix("routing.") {
            Some(tier) => routing.get(tier),
            None => top.get(slot.path),
        };
        let review_model = review_model.clone().filter(|_| slot.key == "reviewer");
        let preset = preset(slot, agent_backend, script_reserve, review_model);
        match node {
            Some(Node::Text(name)) => book.alias(slot, name.clone(), preset),
            node => book.add(faults, slot.key, slot.path, node.unwrap_or(&empty), &preset),
        }
    }
    let named = faults.any_fields(top.get("routes").unwrap_or(&empty), "routes");
    for (name, node) in named.iter() {
        book.add_named(faults, name, node, agent_backend);
    }
    book.settle(faults);
    if agent_backend == AgentBackend::Noop {
        book.routes.values_mut().for_each(|route| route.backend = Backend::Noop);
    }
    Routes {
        agent_backend,
        planner: book.key("planner"),
        reviewer: book.key("reviewer"),
        routing: TIERS.iter().map(|(word, tier)| (*tier, book.key(word))).collect(),
        routes: book.routes,
        script,
    }
}

fn agent_backend(faults: &mut Faults, top: &Fields<'_>) -> AgentBackend {
    match top.get("agentBackend") {
        None => AgentBackend::Noop,
        Some(Node::Text(word)) if word == "routed" => AgentBackend::Routed,
        Some(Node::Text(word)) if word == "noop" => AgentBackend::Noop,
        Some(node) => match backend(faults, node, "agentBackend", &["routed"]) {
            Some((backend, _)) => AgentBackend::One(backend),
            None => AgentBackend::Noop,
        },
    }
}

/// Reads the name of an adapter, with the provider of the form `subagent:<provider>`.
fn backend(faults: &mut Faults, node: &Node, path: &str, more: &[&str]) -> Option<(Backend, Option<String>)> {
    let words: Vec<&str> = BACKENDS.iter().map(|(word, _)| *word).chain(more.iter().copied()).collect();
    let what = match node {
        Node::Text(text) => {
            if let Some(provider) = text.strip_prefix("subagent:").filter(|provider| !provider.is_empty()) {
                return Some((Backend::Subagent, Some(provider.to_owned())));
            }
            let word = match text.as_str() {
                "dsh-agent" => "dsh_agent",
                "local" => {
                    let what = "local is the earlier name of command, which starts command.argv";
                    faults.add(Weight::Warning, path, what);
                    "command"
                }
                other => other,
            };
            if let Some((_, backend)) = BACKENDS.iter().find(|(known, _)| *known == word) {
                return Some((*backend, None));
            }
            match word {
                "forge" => "forge is known and not built yet; name a reviewer of your own".to_owned(),
                _ => {
                    let near = nearest(word, words.iter().copied());
                    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    format!("must be one of {}{near}", words.join(", "))
                }
            }
        }
        other => format!("must be one of {}, not {}", words.join(", "), other.kind()),
    };
    faults.add(Weight::Closing, path, what);
    None
}

pub(crate) fn word_of(backend: Backend) -> &'static str {
    BACKENDS.iter().find(|(_, known)| *known == backend).map_or("noop", |(word, _)| word)
}

fn preset(
    slot: Slot,
    agent: AgentBackend,
    script_reserve: Option<UsdMicros>,
    review_model: Option<String>,
) -> Preset {
    let (backend, model, only) = match agent {
        AgentBackend::Noop | AgentBackend::Routed => (slot.backend, Some(slot.model.to_owned()), None),
        AgentBackend::One(Backend::Scripted) => {
            (Backend::Scripted, Some(slot.role.to_owned()), Some(Backend::Scripted))
        }
        AgentBackend::One(one) => (one, None, Some(one)),
    };
    let reserve = script_reserve.filter(|_| backend == Backend::Scripted);
    Preset { tier: slot.tier, backend, model: review_model.or(model), reserve, only }
}

/// The routes while they are read.
#[derive(Default)]
struct Book {
    usd_per_cny: Option<UsdMicros>,
    routes: Map<RouteKey, RouteConfig>,
    aliases: BTreeMap<String, String>,
    waiting: Vec<(Slot, Preset)>,
    /// Where each route stands, and the names of its fallbacks.
    fallbacks: Vec<(RouteKey, String, Vec<String>)>,
}

impl Book {
    fn alias(&mut self, slot: Slot, name: String, preset: Preset) {
        self.aliases.insert(slot.key.to_owned(), name);
        self.waiting.push((slot, preset));
    }

    fn add(&mut self, faults: &mut Faults, key: &str, path: &str, node: &Node, preset: &Preset) {
        let Ok(key) = RouteKey::parse(key) else { return };
        let (route, fallback) = read_route(faults, node, path, preset, self.usd_per_cny);
        self.routes.insert(key.clone(), route);
        self.fallbacks.push((key, path.to_owned(), fallback));
    }

    fn add_named(&mut self, faults: &mut Faults, name: &str, node: &Node, agent: AgentBackend) {
        let path = format!("routes.{name}");
        if let Err(bad) = RouteKey::parse(name) {
            faults.add(Weight::Closing, path, format!("the name must be {}", bad.rule));
        } else if SLOTS.iter().any(|slot| slot.key == name) {
            faults.add(
                Weight::Closing,
                path,
                format!("the name {name} is taken; write it under its own key"),
            );
        } else {
            let (backend, only) = match agent {
                AgentBackend::One(one) => (one, Some(one)),
                AgentBackend::Noop | AgentBackend::Routed => (Backend::Noop, None),
            };
            let silent = matches!(node, Node::Map(pairs) if pairs.iter().all(|(key, _)| key != "backend"));
            if only.is_none() && silent {
                faults.add(Weight::Closing, format!("{path}.backend"), "a named route needs its backend");
            }
            let preset = Preset { tier: Tier::T1, backend, model: None, reserve: None, only };
            self.add(faults, name, &path, node, &preset);
        }
    }

    /// Follows names of routes, and gives a place whose name leads nowhere its preset.
    fn settle(&mut self, faults: &mut Faults) {
        for (slot, preset) in std::mem::take(&mut self.waiting) {
            if self.resolve(slot.key).is_none() {
                let name = self.aliases.remove(slot.key).unwrap_or_default();
                faults.add(Weight::Closing, slot.path, self.unknown(&name));
                self.add(faults, slot.key, slot.path, &Node::Map(Vec::new()), &preset);
            }
        }
        for (key, path, names) in std::mem::take(&mut self.fallbacks) {
            let mut list: Vec<RouteKey> = Vec::new();
            for (i, name) in names.iter().enumerate() {
                match self.resolve(name) {
                    Some(found) if found == key => {
                        let what = "a route cannot take over from itself";
                        faults.add(Weight::Closing, format!("{path}.fallback[{i}]"), what);
                    }
                    Some(found) if !list.contains(&found) => list.push(found),
                    Some(_) => {}
                    None => faults.add(Weight::Closing, format!("{path}.fallback[{i}]"), self.unknown(name)),
                }
            }
            if let Some(route) = self.routes.get_mut(&key) {
                route.fallback = list;
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known = self.routes.keys().map(RouteKey::as_str);
        let near = nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("there is no route {name:?}{near}")
    }

    fn resolve(&self, name: &str) -> Option<RouteKey> {
        let mut name = name.to_owned();
        for _ in 0..=SLOTS.len() {
            match self.aliases.get(&name) {
                Some(next) => name.clone_from(next),
                None => return RouteKey::parse(&name).ok().filter(|key| self.routes.contains_key(key)),
            }
        }
        None
    }

    /// The route behind one of the six names; `settle` made sure that there is one.
    fn key(&self, name: &str) -> RouteKey {
        self.resolve(name).or_else(|| self.routes.keys().next().cloned()).expect("six places were filled")
    }
}

fn read_route(
    faults: &mut Faults,
    node: &Node,
    path: &str,
    preset: &Preset,
    usd_per_cny: Option<UsdMicros>,
) -> (RouteConfig, Vec<String>) {
    let f = faults.fields(node, path, ROUTE_KEYS);
    let (backend, provider) = route_backend(faults, &f, preset);
    // A preset's model belongs to its adapter.
    let preset_model = preset.model.clone().filter(|_| backend == preset.backend);
    let model = route_word(faults, &f, "model", true).or(preset_model);
    let provider = route_word(faults, &f, "provider", false).or(provider).unwrap_or_else(|| {
        if backend == Backend::Subagent {
            faults.add(Weight::Closing, f.at("provider"), "a subagent needs its provider");
        }
        // Agents of DSH run the models that its process runs.
        let own = if backend == Backend::DshAgent { Backend::Dsh } else { backend };
        word_of(own).to_owned()
    });
    let vendor = vendor(backend, &provider);
    let identity = identity(&vendor, model.as_deref()).unwrap_or_else(|bad| {
        faults.add(Weight::Closing, path, format!("provider and model must be {}", bad.rule));
        Identity::parse("unknown/unknown").expect("a valid identity")
    });
    if let Some((model, meant)) = model.as_deref().and_then(|m| Some((m, config_price::meant(&vendor, m)?))) {
        let at = if f.get("model").is_some() { f.at("model") } else { path.to_owned() };
        let what = format!("{model} is no model that is known here; did you mean {meant}?");
        faults.add(Weight::Warning, at, what);
    }
    let max_tokens = f.get("maxTokens").map(|_| faults.number(&f, "maxTokens", (1, MAX_NUMBER), 32_000));
    let tariff = config_price::read(faults, &f, &vendor, model.as_deref(), usd_per_cny);
    let route = RouteConfig {
        tier: faults.word(&f, "tier", TIERS).unwrap_or(preset.tier),
        backend,
        provider,
        model,
        identity,
        fallback: Vec::new(),
        price: tariff.price,
        peak: tariff.peak,
        price_from: tariff.from,
        reserve: faults.money(&f, "reserveUsd").or(preset.reserve),
        max_tokens,
        max_parallel: f.get("maxParallel").map(|_| faults.count(&f, "maxParallel", (1, 1_000), 1)),
    };
    let fallback = faults.texts(&f, "fallback", |_| None);
    (route, fallback)
}

fn route_backend(faults: &mut Faults, f: &Fields<'_>, preset: &Preset) -> (Backend, Option<String>) {
    let Some(node) = f.get("backend") else { return (preset.backend, None) };
    let Some((found, provider)) = backend(faults, node, &f.at("backend"), &[]) else {
        return (Backend::Noop, None);
    };
    match preset.only {
        Some(only) if only != found => {
            let (only, found) = (word_of(only), word_of(found));
            let what =
                format!("is {found}, but agentBackend is {only} for every route; use agentBackend routed");
            faults.add(Weight::Closing, f.at("backend"), what);
            (Backend::Noop, provider)
        }
        _ => (found, provider),
    }
}

/// A word of an identity: no white space, and a slash only where it may have one.
fn route_word(faults: &mut Faults, f: &Fields<'_>, key: &str, slash: bool) -> Option<String> {
    let text = faults.text(f, key)?;
    if text.contains(char::is_whitespace) || (!slash && text.contains('/')) {
        let rule = if slash { "must not contain white space" } else { "must not contain white space or '/'" };
        faults.add(Weight::Closing, f.at(key), rule);
        return None;
    }
    Some(text)
}

/// Where a route stands in the document.
pub(crate) fn path_of(key: &RouteKey) -> String {
    let slot = SLOTS.iter().find(|slot| slot.key == key.as_str());
    slot.map_or_else(|| format!("routes.{key}"), |slot| slot.path.to_owned())
}
