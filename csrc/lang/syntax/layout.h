// Text with optional line breaks, laid out within a number of columns: what a formatter of source
// text builds, after Oppen and Wadler. A break is a blank where its group fits on the line.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tc::lang {

struct Layout;
using LayoutPtr = std::shared_ptr<const Layout>;

namespace layout {

/// Characters without a line break. A blank at the start of a line is dropped.
LayoutPtr text(std::string characters);
/// A blank, or a line break.
LayoutPtr line();
/// What runs to the end of its line: after whatever stands there, or on a line of its own.
/// Every group around it is broken.
LayoutPtr comment(std::string characters, bool own_line);
LayoutPtr concat(std::vector<LayoutPtr> parts);
/// Either all of its own lines are blanks, or all are breaks.
LayoutPtr group(std::vector<LayoutPtr> parts);
/// Parts with a line between each two, which is a break only where the next part needs it.
LayoutPtr fill(std::vector<LayoutPtr> parts);
/// Breaks inside continue `columns` further right than those around it.
LayoutPtr nest(int columns, std::vector<LayoutPtr> parts);
/// Breaks inside continue at the column where this starts.
LayoutPtr align(std::vector<LayoutPtr> parts);

}  // namespace layout

/// Takes layouts one by one and collects the text. A line break is written once something follows
/// it, so that a comment may still go to the line before.
class Page {
 public:
  explicit Page(int width) : width_(width) {}

  void print(const LayoutPtr& layout, int indentation);
  void new_line(int indentation) { pending_ = indentation; }
  /// The next line break is followed by an empty line, except at the top of the page.
  void empty_line() { empty_line_ = true; }
  /// The empty line that was asked for is not wanted.
  void no_empty_line() { empty_line_ = false; }
  /// The text, ended by a line break.
  std::string finish();

 private:
  struct Command {
    int indentation;
    bool flat;
    const Layout* layout;
    size_t first = 0;  ///< fill: the part to go on with
  };

  bool fits(const Layout& layout, const std::vector<Command>& rest) const;
  void print_fill(Command command, std::vector<Command>* stack);
  void write(const std::string& characters);
  void write_comment(const Layout& comment, int indentation);
  void flush();
  int column() const { return pending_ >= 0 ? pending_ : column_; }

  int width_;
  std::string out_;
  int column_ = 0;
  int pending_ = -1;  ///< the indentation of a line break that is not written yet
  bool empty_line_ = false;
};

}  // namespace tc::lang
