//! The grammar of expressions. Evaluates nothing.

use crate::functions::Function;
use crate::token::{Kind, Token, mistake, tokens};
use crate::{EXPRESSION_BYTES_MAX, NESTING_MAX, NODES_MAX};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// An expression. A tree of at most [`NODES_MAX`] nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Name(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Field(Box<Node>, String),
    Has(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<[Node; 3]>),
    Call(Function, Vec<Node>),
}

/// What stands between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// As it is written, with how tightly it binds.
    const ALL: [(&'static str, Operator, u8); 14] = [
        ("||", Operator::Or, 1),
        ("&&", Operator::And, 2),
        ("==", Operator::Equal, 3),
        ("!=", Operator::NotEqual, 3),
        ("<", Operator::Less, 3),
        ("<=", Operator::LessOrEqual, 3),
        (">", Operator::Greater, 3),
        (">=", Operator::GreaterOrEqual, 3),
        ("in", Operator::In, 3),
        ("+", Operator::Add, 4),
        ("-", Operator::Subtract, 4),
        ("*", Operator::Multiply, 5),
        ("/", Operator::Divide, 5),
        ("%", Operator::Remainder, 5),
    ];

    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, operator, _)| *operator == self);
        known.map_or("", |(text, ..)| text)
    }
}

/// Reads an expression.
pub(crate) fn parse(expression: &str) -> Result<Node, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!(
            "the expression has more than {EXPRESSION_BYTES_MAX} bytes"
        ));
    }
    let mut parser = Parser {
        expression,
        tokens: tokens(expression)?,
        next: 0,
        n_nodes: 0,
        n_around: 0,
    };
    let node = parser.expression()?;
    match parser.peek() {
        Kind::End => Ok(node),
        _ => Err(parser.mistake("here the expression should end")),
    }
}

struct Parser<'a> {
    expression: &'a str,
    tokens: Vec<Token>,
    next: usize,
    n_nodes: usize,
    n_around: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.next].kind
    }

    fn mistake(&self, what: &str) -> String {
        mistake(self.expression, self.tokens[self.next].at, what)
    }

    fn advance(&mut self) {
        // The last token is the end, and nothing goes on behind it.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn is_next(&self, symbol: &str) -> bool {
        matches!(self.peek(), Kind::Symbol(next) if *next == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_next = self.is_next(symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.mistake(&format!("{symbol} is missing")))
    }

    fn node(&mut self, node: Node) -> Result<Node, String> {
        self.n_nodes += 1;
        if self.n_nodes > NODES_MAX {
            return Err(format!("the expression has more than {NODES_MAX} parts"));
        }
        Ok(node)
    }

    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.n_around += 1;
        if self.n_around > NESTING_MAX {
            return Err(self.mistake(&format!("more than {NESTING_MAX} parts lie inside one another")));
        }
        let read = read(self);
        self.n_around -= 1;
        read
    }

    fn expression(&mut self) -> Result<Node, String> {
        self.inside(|parser| {
            let asked = parser.binary(1)?;
            if !parser.take("?") {
                return Ok(asked);
            }
            let yes = parser.binary(1)?;
            parser.expect(":")?;
            let no = parser.expression()?;
            parser.node(Node::Choice(Box::new([asked, yes, no])))
        })
    }

    /// Operators that bind at least this tightly, from the left.
    fn binary(&mut self, tightness: u8) -> Result<Node, String> {
        let mut left = self.unary()?;
        while let Some((operator, binds)) = self.operator().filter(|(_, binds)| *binds >= tightness) {
            self.advance();
            let right = self.binary(binds + 1)?;
            left = self.node(Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let text = match self.peek() {
            Kind::Symbol(symbol) => symbol,
            Kind::Name(name) => name.as_str(),
            _ => return None,
        };
        let known = Operator::ALL.iter().find(|(known, ..)| *known == text);
        known.map(|(_, operator, binds)| (*operator, *binds))
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.take("!") {
            let operand = self.inside(Self::unary)?;
            return self.node(Node::Not(Box::new(operand)));
        }
        if !self.take("-") {
            return self.member();
        }
        // The smallest int has no positive counterpart, so a sign before digits belongs to them.
        if let Kind::Int(_) = self.peek() {
            return self.member_of(true);
        }
        let operand = self.inside(Self::unary)?;
        self.node(Node::Negate(Box::new(operand)))
    }

    fn member(&mut self) -> Result<Node, String> {
        self.member_of(false)
    }

    /// A value and what is taken of it.
    fn member_of(&mut self, is_negative: bool) -> Result<Node, String> {
        let mut node = self.primary(is_negative)?;
        loop {
            if self.take(".") {
                let (key, may_be_called) = match self.peek() {
                    Kind::Name(name) => (name.clone(), true),
                    Kind::Quoted(key) => (key.clone(), false),
                    _ => return Err(self.mistake("after the point stands a name")),
                };
                if may_be_called && matches!(&self.tokens[self.next + 1].kind, Kind::Symbol("(")) {
                    node = self.call(&key, Some(node))?;
                } else {
                    self.advance();
                    node = self.node(Node::Field(Box::new(node), key))?;
                }
            } else if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = self.node(Node::Index(Box::new(node), Box::new(index)))?;
            } else {
                return Ok(node);
            }
        }
    }

    fn primary(&mut self, is_negative: bool) -> Result<Node, String> {
        let node = match self.peek().clone() {
            Kind::Int(size) => Node::Int(self.int(size, is_negative)?),
            Kind::Double(number) => Node::Double(number),
            Kind::Text(text) => Node::Text(text),
            Kind::Symbol("(") => {
                self.advance();
                let node = self.expression()?;
                self.expect(")")?;
                return Ok(node);
            }
            Kind::Symbol("[") => return self.list(),
            Kind::Symbol("{") => return self.map(),
            Kind::Name(name) => match name.as_str() {
                "null" => Node::Null,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                "in" => return Err(self.mistake("before `in` a value is missing")),
                _ if matches!(&self.tokens[self.next + 1].kind, Kind::Symbol("(")) => {
                    return self.call(&name, None);
                }
                _ => Node::Name(name),
            },
            Kind::Quoted(_) => return Err(self.mistake("a key in backticks stands behind a point")),
            Kind::Symbol(_) | Kind::End => return Err(self.mistake("a value is missing")),
        };
        self.advance();
        self.node(node)
    }

    fn int(&self, size: u64, is_negative: bool) -> Result<i64, String> {
        let signed = i128::from(size) * if is_negative { -1 } else { 1 };
        i64::try_from(signed).map_err(|_| self.mistake("the number has more than 64 bits"))
    }

    fn list(&mut self) -> Result<Node, String> {
        let items = self.sequence("[", "]", Self::expression)?;
        self.node(Node::List(items))
    }

    fn map(&mut self) -> Result<Node, String> {
        let entries = self.sequence("{", "}", |parser| {
            let key = parser.expression()?;
            parser.expect(":")?;
            Ok((key, parser.expression()?))
        })?;
        self.node(Node::Map(entries))
    }

    /// Things between brackets, with commas between them; a last comma is allowed.
    fn sequence<T>(
        &mut self,
        open: &str,
        close: &str,
        read: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect(open)?;
        let mut read_so_far = Vec::new();
        while !self.is_next(close) {
            read_so_far.push(read(self)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(close)?;
        Ok(read_so_far)
    }

    /// Returns a call; its name is next.
    fn call(&mut self, name: &str, of: Option<Node>) -> Result<Node, String> {
        if name == "has" && of.is_none() {
            return self.has();
        }
        let function = Function::named(name, of.is_some());
        let function = function.ok_or_else(|| self.mistake(&format!("there is no function {name}")))?;
        let at = self.next;
        self.advance();
        let is_method = of.is_some();
        let mut arguments: Vec<Node> = of.into_iter().collect();
        arguments.extend(self.sequence("(", ")", Self::expression)?);
        if arguments.len() != function.n_arguments() {
            let n = function.n_arguments() - usize::from(is_method);
            let what = format!("{name} takes {n} argument{}", if n == 1 { "" } else { "s" });
            return Err(mistake(self.expression, self.tokens[at].at, &what));
        }
        self.node(Node::Call(function, arguments))
    }

    fn has(&mut self) -> Result<Node, String> {
        self.advance();
        self.expect("(")?;
        let asked = self.expression()?;
        let Node::Field(of, key) = asked else {
            return Err(self.mistake("has takes a field, such as has(input.name)"));
        };
        self.expect(")")?;
        Ok(Node::Has(of, key.to_string()))
    }
}
