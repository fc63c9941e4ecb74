#include "lang/syntax/layout.h"

#include <algorithm>

#include "base/source.h"

namespace tc::lang {
namespace {

enum class LayoutKind { Text, Line, Comment, Group, Fill, Nest, Align };

int columns_of(const std::string& characters) {
  int count = 0;
  for (size_t at = 0; at < characters.size(); at += character_at(characters, at).length) ++count;
  return count;
}

}  // namespace

struct Layout {
  LayoutKind kind;
  std::string characters;
  std::vector<LayoutPtr> parts;
  int columns = 0;      ///< Text: its width; Nest: how far
  bool broken = false;  ///< holds a comment, so that it cannot be one line
  bool own_line = false;
};

namespace layout {
namespace {

std::shared_ptr<Layout> make(LayoutKind kind, std::vector<LayoutPtr> parts, int columns = 0) {
  auto result = std::make_shared<Layout>();
  result->kind = kind;
  result->columns = columns;
  result->broken =
      std::any_of(parts.begin(), parts.end(), [](const LayoutPtr& part) { return part->broken; });
  result->parts = std::move(parts);
  return result;
}

}  // namespace

LayoutPtr text(std::string characters) {
  auto result = make(LayoutKind::Text, {}, columns_of(characters));
  result->characters = std::move(characters);
  return result;
}

LayoutPtr line() { return make(LayoutKind::Line, {}); }

LayoutPtr comment(std::string characters, bool own_line) {
  auto result = make(LayoutKind::Comment, {});
  result->characters = std::move(characters);
  result->broken = true;
  result->own_line = own_line;
  return result;
}

LayoutPtr concat(std::vector<LayoutPtr> parts) { return nest(0, std::move(parts)); }
LayoutPtr group(std::vector<LayoutPtr> parts) { return make(LayoutKind::Group, std::move(parts)); }
LayoutPtr fill(std::vector<LayoutPtr> parts) { return make(LayoutKind::Fill, std::move(parts)); }
LayoutPtr nest(int columns, std::vector<LayoutPtr> parts) {
  return make(LayoutKind::Nest, std::move(parts), columns);
}
LayoutPtr align(std::vector<LayoutPtr> parts) { return make(LayoutKind::Align, std::move(parts)); }

}  // namespace layout

void Page::print(const LayoutPtr& layout, int indentation) {
  std::vector<Command> stack = {{indentation, false, layout.get()}};
  auto push = [&stack](const Layout& parent, int inside, bool flat) {
    for (auto part = parent.parts.rbegin(); part != parent.parts.rend(); ++part)
      stack.push_back({inside, flat, part->get()});
  };
  while (!stack.empty()) {
    Command command = stack.back();
    stack.pop_back();
    const Layout& now = *command.layout;
    switch (now.kind) {
      case LayoutKind::Text: write(now.characters); break;
      case LayoutKind::Line:
        if (command.flat) {
          write(" ");
        } else {
          new_line(command.indentation);
        }
        break;
      case LayoutKind::Comment: write_comment(now, command.indentation); break;
      case LayoutKind::Group:
        push(now, command.indentation, command.flat || (!now.broken && fits(now, stack)));
        break;
      case LayoutKind::Fill: print_fill(command, &stack); break;
      case LayoutKind::Nest: push(now, command.indentation + now.columns, command.flat); break;
      case LayoutKind::Align: push(now, column(), command.flat); break;
    }
  }
}

void Page::print_fill(Command command, std::vector<Command>* stack) {
  const Layout& now = *command.layout;
  size_t at = command.first;
  if (at == now.parts.size()) return;
  const Layout& part = *now.parts[at];
  Command next = command;
  ++next.first;
  if (next.first < now.parts.size()) stack->push_back(next);
  bool flat = command.flat;
  if (at > 0 && !flat) {
    // The blank before the part takes a column too.
    ++column_;
    flat = !part.broken && pending_ < 0 && fits(part, *stack);
    --column_;
  }
  if (at > 0 && flat) write(" ");
  if (at > 0 && !flat) new_line(command.indentation);
  stack->push_back({command.indentation, flat || (!part.broken && fits(part, *stack)), &part});
}

/// Whether the layout as one line, and what follows it up to the next possible break, stay inside
/// the page.
bool Page::fits(const Layout& layout, const std::vector<Command>& rest) const {
  int left = width_ - column();
  size_t outside = rest.size();
  std::vector<Command> stack = {{0, true, &layout}};
  while (left >= 0) {
    if (stack.empty()) {
      if (outside == 0) return true;
      stack.push_back(rest[--outside]);
    }
    Command command = stack.back();
    stack.pop_back();
    const Layout& now = *command.layout;
    switch (now.kind) {
      case LayoutKind::Text: left -= now.columns; break;
      case LayoutKind::Line:
        if (!command.flat) return true;
        --left;
        break;
      case LayoutKind::Comment: return true;
      case LayoutKind::Fill:
        // Before its first part a fill has no break, before the others it may.
        if (!command.flat && command.first > 0) return true;
        if (command.first > 0) --left;
        if (command.first + 1 < now.parts.size())
          stack.push_back({0, command.flat, command.layout, command.first + 1});
        if (command.first < now.parts.size())
          stack.push_back({0, command.flat, now.parts[command.first].get()});
        break;
      default:
        for (auto part = now.parts.rbegin(); part != now.parts.rend(); ++part)
          stack.push_back({0, command.flat, part->get()});
    }
  }
  return false;
}

void Page::flush() {
  if (pending_ < 0) return;
  while (!out_.empty() && out_.back() == ' ') out_.pop_back();
  if (!out_.empty()) {
    out_ += '\n';
    if (empty_line_) out_ += '\n';
  }
  empty_line_ = false;
  out_.append(pending_, ' ');
  column_ = pending_;
  pending_ = -1;
}

void Page::write(const std::string& characters) {
  if (characters.empty()) return;
  bool at_start = pending_ >= 0 || out_.empty();
  size_t first = at_start ? characters.find_first_not_of(' ') : 0;
  if (first == std::string::npos) return;
  flush();
  out_.append(characters, first, std::string::npos);
  column_ += columns_of(characters) - static_cast<int>(first);
}

void Page::write_comment(const Layout& comment, int indentation) {
  if (comment.own_line || out_.empty()) {
    if (pending_ < 0) pending_ = indentation;
    int next = pending_;
    flush();
    out_ += comment.characters;
    pending_ = next;
    return;
  }
  while (!out_.empty() && out_.back() == ' ') out_.pop_back();
  out_ += "  " + comment.characters;
  if (pending_ < 0) pending_ = indentation;
}

std::string Page::finish() {
  empty_line_ = false;
  new_line(0);
  flush();
  return std::move(out_);
}

}  // namespace tc::lang
