// What the fake reads from kernel images: their length, kernel names and parameter sizes. PTX text and cubins (ELF).
#include <algorithm>
#include <cctype>
#include <cstring>

#include "fake.h"

namespace fake {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;
constexpr size_t kLongestPtx = 64u << 20;

template <class T>
static T read(const char* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

// ELF64: section headers lie at e_shoff (0x28), e_shentsize (0x3A) bytes each, e_shnum (0x3C) of them.
struct Section {
    std::string name;
    uint64_t offset, size;
};
static std::vector<Section> sections(const std::string& image) {
    const char* p = image.data();
    auto at = [&](uint64_t i) { return p + read<uint64_t>(p + 0x28) + i * read<uint16_t>(p + 0x3A); };
    std::vector<Section> all;
    uint64_t names = read<uint64_t>(at(read<uint16_t>(p + 0x3E)) + 0x18);
    for (uint16_t i = 0; i < read<uint16_t>(p + 0x3C); i++) {
        const char* header = at(i);
        all.push_back(
            {p + names + read<uint32_t>(header), read<uint64_t>(header + 0x18), read<uint64_t>(header + 0x20)});
    }
    return all;
}
static bool is_elf(const std::string& image) {
    return image.compare(0, 4,
                         "\x7f"
                         "ELF") == 0;
}

bool read_image(const void* code, std::string* out) {
    auto* p = static_cast<const char*>(code);
    if (std::memcmp(p,
                    "\x7f"
                    "ELF",
                    4) == 0) {
        if (p[4] != 2 || read<uint16_t>(p + 0x12) != 190) return false;  // 64 bit, machine EM_CUDA
        // The section headers or the program headers (e_phoff 0x20, 0x36 bytes each, e_phnum 0x38) come last.
        size_t sections_end = read<uint64_t>(p + 0x28) + 1ull * read<uint16_t>(p + 0x3A) * read<uint16_t>(p + 0x3C);
        size_t programs_end = read<uint64_t>(p + 0x20) + 1ull * read<uint16_t>(p + 0x36) * read<uint16_t>(p + 0x38);
        out->assign(p, std::max(sections_end, programs_end));
        return true;
    }
    if (read<uint32_t>(p) == kFatbinMagic) {  // magic, version, header size (u16 at 6), size of what follows (u64 at 8)
        out->assign(p, read<uint16_t>(p + 6) + read<uint64_t>(p + 8));
        return true;
    }
    size_t length = strnlen(p, kLongestPtx);
    out->assign(p, length);
    return out->find(".version") != std::string::npos && out->find(".target") != std::string::npos;
}

// ---- PTX: .entry name ( .param .align 8 .b8 x[16], .param .u64 y )
static size_t find_entry(const std::string& ptx, const std::string& name) {
    for (size_t at = ptx.find(".entry"); at != std::string::npos; at = ptx.find(".entry", at + 1)) {
        size_t start = ptx.find_first_not_of(" \t\r\n", at + 6);
        size_t end = ptx.find_first_of(" \t\r\n({", start);
        if (start != std::string::npos && ptx.compare(start, end - start, name) == 0) return end;
    }
    return std::string::npos;
}
static std::vector<std::string> ptx_entries(const std::string& ptx) {
    std::vector<std::string> names;
    for (size_t at = ptx.find(".entry"); at != std::string::npos; at = ptx.find(".entry", at + 1)) {
        size_t start = ptx.find_first_not_of(" \t\r\n", at + 6);
        names.push_back(ptx.substr(start, ptx.find_first_of(" \t\r\n({", start) - start));
    }
    return names;
}
static bool ptx_params(const std::string& ptx, const std::string& name, std::vector<Param>* out) {
    size_t at = find_entry(ptx, name);
    if (at == std::string::npos) return false;
    size_t open = ptx.find_first_not_of(" \t\r\n", at);
    out->clear();
    if (open == std::string::npos || ptx[open] != '(') return true;
    std::string list = ptx.substr(open + 1, ptx.find(')', open) - open - 1);
    size_t offset = 0;
    for (size_t p = list.find(".param"); p != std::string::npos; p = list.find(".param", p + 1)) {
        std::string one =
            list.substr(p + 6, list.find(',', p) == std::string::npos ? std::string::npos : list.find(',', p) - p - 6);
        size_t size = 0, align = 0, count = 1;
        for (size_t dot = one.find('.'); dot != std::string::npos; dot = one.find('.', dot + 1)) {
            if (one.compare(dot, 6, ".align") == 0)
                align = std::stoul(one.substr(dot + 6));
            else if (std::strchr("busf", one[dot + 1]) && std::isdigit(one[dot + 2]))
                size = std::stoul(one.substr(dot + 2)) / 8;
        }
        size_t bracket = one.find('[');
        if (bracket != std::string::npos) count = std::stoul(one.substr(bracket + 1));
        align = std::max(align, size);
        if (!size) return false;
        offset = (offset + align - 1) / align * align;
        out->push_back({offset, size * count});
        offset += size * count;
    }
    return true;
}

// ---- cubin: section .nv.info.<kernel> holds records {u8 format, u8 attribute, u16 size or value, payload}. Attribute
// 0x17 describes one parameter: u32 index, u16 ordinal, u16 offset, u32 whose bits 18.. are the size in bytes. Kernels
// with parameters too large for that have 0x45 instead, whose last word is the size.
constexpr uint8_t kSized = 4, kParamInfo = 0x17, kLargeParamInfo = 0x45;
static bool elf_params(const std::string& image, const std::string& name, std::vector<Param>* out) {
    for (const Section& section : sections(image)) {
        if (section.name != ".nv.info." + name) continue;
        const char* p = image.data() + section.offset;
        const char* end = p + section.size;
        std::map<unsigned, Param> found;
        while (p + 4 <= end) {
            uint16_t size = read<uint16_t>(p + 2);
            if (uint8_t(p[0]) == kSized) {
                uint8_t attribute = p[1];
                if (attribute == kParamInfo || attribute == kLargeParamInfo)
                    found[read<uint16_t>(p + 8)] = {read<uint16_t>(p + 10),
                                                    read<uint32_t>(p + 12) >> (attribute == kParamInfo ? 18 : 0)};
                p += size;
            }
            p += 4;
        }
        for (auto& entry : found) out->push_back(entry.second);
        return true;
    }
    return false;
}
static std::vector<std::string> elf_kernels(const std::string& image) {
    std::vector<std::string> names;
    for (const Section& section : sections(image))
        if (section.name.compare(0, 9, ".nv.info.") == 0) names.push_back(section.name.substr(9));
    return names;
}

bool image_has_kernel(const std::string& image, const std::string& name) {
    // Fatbins may be compressed: every name counts as present in them.
    if (read<uint32_t>(image.data()) == kFatbinMagic) return true;
    std::vector<std::string> names = image_kernels(image);
    return std::find(names.begin(), names.end(), name) != names.end();
}
bool image_params(const std::string& image, const std::string& name, std::vector<Param>* out) {
    return is_elf(image) ? elf_params(image, name, out) : ptx_params(image, name, out);
}
std::vector<std::string> image_kernels(const std::string& image) {
    return is_elf(image) ? elf_kernels(image) : ptx_entries(image);
}

}  // namespace fake
