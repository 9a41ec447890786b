// Run the models of a prepared file from C++: play MODEL.fourfold
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fourfold.h"

namespace {

struct Closes {
    void operator()(ff_player *player) const { ff_close(player); }
    void operator()(ff_model *model) const { ff_unload(model); }
};
using Player = std::unique_ptr<ff_player, Closes>;
using Model = std::unique_ptr<ff_model, Closes>;

// Throw an exception if the player returned an error.
template <typename Handle>
Handle *checked(Handle *handle, const ff_error &error) {
    if (handle == nullptr) throw std::runtime_error(error.text);
    return handle;
}

// Allocate memory for each tensor, filled with zeros.
std::vector<std::vector<char>> arrays(const ff_model *model,
                                      const ff_tensor *(*tensor)(const ff_model *, size_t)) {
    std::vector<std::vector<char>> made;
    for (size_t i = 0; tensor(model, i) != nullptr; i++) {
        made.emplace_back(tensor(model, i)->bytes);
    }
    return made;
}

void play(ff_player *player, const char *name) {
    ff_error error;
    ff_options options{};
    options.model = name;
    Model model(checked(ff_load(player, &options, &error), error));
    auto inputs = arrays(model.get(), ff_input), outputs = arrays(model.get(), ff_output);
    std::vector<const void *> from;
    std::vector<void *> to;
    for (auto &one : inputs) from.push_back(one.data());
    for (auto &one : outputs) to.push_back(one.data());
    if (ff_run(model.get(), from.data(), to.data(), &error) != FF_OK) {
        throw std::runtime_error(error.text);
    }
    for (size_t i = 0; i < outputs.size(); i++) {
        const ff_tensor *tensor = ff_output(model.get(), i);
        std::printf("%s: %s %s\n", name, tensor->name, tensor->text);
    }
}

}  // namespace

int main(int count, char **arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: play MODEL.fourfold [DEVICE]\n");
        return 2;
    }
    try {
        ff_error error;
        const char *device = count > 2 ? arguments[2] : nullptr;
        Player player(checked(ff_open(arguments[1], device, nullptr, &error), error));
        for (size_t i = 0; i < ff_model_count(player.get()); i++) {
            play(player.get(), ff_model_name(player.get(), i));
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return 0;
}
